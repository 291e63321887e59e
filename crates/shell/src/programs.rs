//! The programs known by name, and what starting one means when no rule in `rules` looks at its arguments.

use crate::verdict::Verdict;

/// Programs of one kind.
pub(crate) struct Group {
    pub kind: Kind,
    pub reason: &'static str,
    /// Separated by blanks; a trailing `*` stands for any ending.
    pub names: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reads files named in its arguments and prints.
    Reader,
    /// Its arguments are text, not files.
    Printer,
    /// Builds, tests or formats what is in the workspace; `-o` names what it writes.
    Builder,
    Ask,
    Deny,
}

impl Kind {
    pub fn verdict(self) -> Verdict {
        match self {
            Kind::Reader | Kind::Printer | Kind::Builder => Verdict::Allow,
            Kind::Ask => Verdict::Ask,
            Kind::Deny => Verdict::Deny,
        }
    }
}

pub(crate) const GROUPS: &[Group] = &[
    Group {
        kind: Kind::Reader,
        reason: "only reads",
        names: "ls cat tac nl head tail less more wc file stat du df tree grep egrep fgrep rg ag ack diff sdiff diff3 cmp comm cut paste tr \
                sort uniq join fold fmt column rev od xxd hexdump strings md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum \
                cksum sum shasum md5 base64 base32 basenc readlink realpath jq yq xq xmllint bat batcat exa eza lsd iconv pr expand \
                unexpand tsort look zcat bzcat xzcat zstdcat zgrep zless zmore nm objdump readelf size addr2line c++filt otool ldd \
                lsof lsblk vdir dir egrep csvcut csvlook csvgrep csvstat gron fx glow mdcat delta difft colordiff wdiff tokei \
                identify mediainfo pdfinfo catdoc antiword man info last who dmesg bc cal tig fdfind locate plocate",
    },
    Group {
        kind: Kind::Printer,
        reason: "only prints",
        names: "echo printf true false : test [ [[ (( ((;;)) expr seq sleep basename dirname yes pwd return exit break continue shift getopts \
                wait jobs fg bg disown umask ulimit times dirs unalias shopt logout help caller compgen clear tput stty which whereis \
                whatis apropos type ps top pgrep uptime free vmstat iostat lscpu lsusb lspci uname whoami id groups w \
                users tty locale getconf printenv nproc arch factor numfmt pstree ss netstat arch tset reset let sw_vers \
                figlet cowsay lolcat banner uuidgen mcookie pidof lsmod lsns lslocks loginctl hostid logname",
    },
    Group {
        kind: Kind::Builder,
        reason: "builds, tests or formats what is in the workspace",
        names: "cmake ctest ninja meson bazel gcc g++ cc c++ clang clang++ ld lld gold as nasm ar ranlib strip objcopy rustc rustfmt \
                rustdoc javac javadoc jar kotlinc scalac gradle gradlew mvn mvnw ant sbt tsc eslint prettier biome jest mocha vitest ava \
                pytest py.test tox nox mypy pyright ruff black isort flake8 pylint pyflakes coverage sphinx-build mkdocs pandoc latex pdflatex \
                xelatex lualatex bibtex biber latexmk tectonic typst hugo zola jekyll swiftc swiftlint swiftformat ghc stylish-haskell hlint \
                ocamlc ocamlopt dune elixirc shellcheck shfmt clang-format clang-tidy cppcheck protoc flex bison yacc lex m4 autoconf \
                automake autoreconf autoheader aclocal libtoolize pkg-config pkgconf configure msbuild phpunit phpstan phpcs php-cs-fixer \
                rspec rubocop rake webpack vite rollup esbuild parcel swc babel turbo lerna wasm-pack mdbook typos markdownlint yamllint \
                jsonlint hadolint taplo dot gperf patchelf convert magick mogrify ffmpeg ffprobe pngquant optipng svgo dos2unix unix2dos \
                gofmt goimports golangci-lint staticcheck gotest gotestsum zig nim scons b2 qmake gcov lcov gcovr genhtml doxygen \
                cargo-clippy cargo-fmt msgfmt xgettext msgmerge ispell aspell hunspell yapf pre-commit playwright cypress nx \
                tailwindcss sass postcss stylelint tsx ts-node ctags etags cscope exiftool pdftotext dot2tex mlr cloc scc",
    },
    Group {
        kind: Kind::Ask,
        reason: "talks to the network",
        names: "curl wget wget2 ssh scp sftp ftp lftp telnet nc ncat netcat socat nmap masscan dig drill nslookup host whois ping ping6 \
                traceroute tracepath mtr aria2c axel http https httpie xh hurl w3m lynx links elinks rclone aws gcloud gsutil bq az gh glab \
                hub heroku flyctl fly vercel netlify wrangler firebase kubectl k9s helm terraform tofu ansible ansible-playbook pulumi \
                doctl linode-cli mosh rsh rlogin rcp iperf iperf3 tcpdump tshark wireshark ngrok cloudflared websocat grpcurl mail mailx \
                sendmail msmtp mutt youtube-dl yt-dlp psql pg_dump pg_restore mysql mysqldump redis-cli mongo mongosh tor torsocks \
                proxychains proxychains4 croc magic-wormhole wormhole speedtest nmcli iwconfig iw wpa_cli tailscale zerotier-cli wg \
                wg-quick openvpn dhclient GET POST fetch svn hg bzr cvs fossil",
    },
    Group {
        kind: Kind::Ask,
        reason: "installs, changes or removes software",
        names: "apt apt-get aptitude apt-cache dpkg yum dnf rpm zypper pacman yay paru apk brew port snap flatpak pkg emerge nix nix-env \
                nix-shell guix conda mamba micromamba pip pip3 pipx uv poetry pdm rye hatch npm npx pnpm pnpx yarn bun bunx corepack nvm \
                fnm volta asdf mise rustup rustup-init gem bundle cpan cpanm luarocks opam cabal stack composer pecl pear mix rebar3 \
                dotnet nuget vcpkg conan easy_install update-alternatives softwareupdate mas sdk deno cargo go swift",
    },
    Group {
        kind: Kind::Ask,
        reason: "starts containers or virtual machines, which are outside the jail",
        names: "docker docker-compose podman podman-compose nerdctl buildah skopeo lxc lxd incus vagrant virsh virt-install VBoxManage \
                qemu-system-* minikube kind k3s k3d colima limactl multipass machinectl systemd-nspawn bwrap firejail unshare runc crun ctr crictl",
    },
    Group {
        kind: Kind::Ask,
        reason: "ends processes that may not be its own",
        names: "pkill killall killall5 skill slay xkill",
    },
    Group {
        kind: Kind::Ask,
        reason: "works on keys or signatures",
        names: "ssh-keygen ssh-add ssh-agent ssh-copy-id ssh-keyscan gpg gpg2 gpgconf gpg-agent keytool certbot mkcert pass age sops op bw",
    },
    Group {
        kind: Kind::Ask,
        reason: "runs on after the command ends, or in a window of its own",
        names: "tmux screen byobu zellij dtach abduco xterm gnome-terminal konsole xdg-open open start gio code subl gedit nano pico micro \
                helix hx kak ed ex vi vim nvim view vimdiff emacs emacsclient expect autoexpect gdb lldb rr dc gnuplot octave matlab",
    },
    Group {
        kind: Kind::Ask,
        reason: "changes settings of the machine",
        names: "mount umount fusermount losetup hostnamectl timedatectl localectl hwclock tc brctl ethtool renice cpupower xrandr gsettings \
                dconf defaults scutil networksetup resolvectl ldconfig update-ca-certificates dpkg-reconfigure rfkill setfacl chattr quota \
                ipcrm tune2fs fuser trash-empty launchctl pm2 supervisorctl",
    },
    Group {
        kind: Kind::Deny,
        reason: "takes other rights",
        names: "sudo sudoedit su doas pkexec run0 gosu su-exec runuser setpriv capsh chroot nsenter newgrp sg kdesu gksu gksudo please setcap",
    },
    Group {
        kind: Kind::Deny,
        reason: "writes to disks below the file system",
        names: "mkfs mkfs.* mke2fs mkswap mkdosfs mkntfs newfs wipefs fdisk sfdisk gdisk sgdisk cfdisk parted blkdiscard hdparm sdparm nvme \
                cryptsetup lvremove vgremove pvremove lvreduce mdadm zpool zfs dmsetup swapoff swapon badblocks debugfs fsck fsck.* e2fsck \
                diskutil partprobe flashrom efibootmgr grub-install update-grub grub-mkconfig bless fwupdmgr",
    },
    Group {
        kind: Kind::Deny,
        reason: "stops or restarts the machine",
        names: "shutdown reboot halt poweroff init telinit kexec pm-suspend pm-hibernate",
    },
    Group {
        kind: Kind::Deny,
        reason: "changes the kernel's modules",
        names: "insmod modprobe rmmod depmod dkms kmod kextload kextunload",
    },
    Group {
        kind: Kind::Deny,
        reason: "weakens the machine's protection",
        names: "iptables ip6tables iptables-restore nft ufw firewall-cmd setenforce setsebool semanage aa-disable aa-teardown aa-complain \
                apparmor_parser auditctl csrutil spctl nvram pfctl ebtables arptables tripwire",
    },
    Group {
        kind: Kind::Deny,
        reason: "changes accounts or passwords",
        names: "passwd chpasswd chsh chfn useradd usermod userdel adduser deluser groupadd groupmod groupdel gpasswd visudo vipw vigr chage \
                dscl pwconv pwunconv newusers",
    },
    Group {
        kind: Kind::Deny,
        reason: "arranges to be run again later",
        names: "crontab at batch systemd-run update-rc.d chkconfig rc-update anacron fcron",
    },
    Group {
        kind: Kind::Deny,
        reason: "reads the stored passwords",
        names: "secret-tool security kwallet-query unix_chkpwd keyctl mimipenguin",
    },
    Group {
        kind: Kind::Deny,
        reason: "attack tool",
        names: "msfconsole msfvenom hydra john hashcat sqlmap nikto aircrack-ng ettercap responder linpeas",
    },
];

/// Programs that run the program in their arguments.
const WRAPPERS: &str = "env nohup timeout gtimeout nice ionice stdbuf setsid time command builtin exec xargs parallel watch flock chrt taskset \
    script unbuffer strace ltrace perf valgrind busybox toybox sudo doas coproc rlwrap fakeroot faketime caffeinate catchsegv \
    systemd-inhibit dbus-run-session xvfb-run eatmydata chronic ts hyperfine entr setarch linux32 linux64 prlimit choom numactl cgexec \
    run-parts start-stop-daemon tini dumb-init catatonit unshare";

/// Turns text that cannot be read into text that can, and so hides what is run.
const DECODERS: &str = "base64 base32 basenc xxd openssl uudecode gunzip zcat bzcat xzcat unxz zstdcat uncompress rev tr gpg rot13 gbase64";

/// Brings text from elsewhere.
const FETCHERS: &str = "curl wget wget2 aria2c axel nc ncat netcat socat telnet ftp lftp sftp scp ssh http https httpie xh lynx w3m links \
    elinks GET fetch gh glab aws gsutil gcloud rclone dig nslookup host websocat";

/// Worst when hidden: looked for behind globs and inside other languages' code.
pub(crate) const DANGEROUS: &[&str] = &[
    "rm",
    "dd",
    "mkfs",
    "shred",
    "shutdown",
    "reboot",
    "halt",
    "poweroff",
    "sudo",
    "su",
    "chmod",
    "chown",
    "mv",
    "curl",
    "wget",
    "bash",
    "sh",
    "crontab",
    "nc",
    "mkfs.ext4",
    "wipefs",
    "insmod",
    "modprobe",
    "iptables",
    "passwd",
    "kill",
    "find",
    "history",
    "unlink",
    "truncate",
];

fn listed(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|n| match n.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => n == name,
    })
}

pub(crate) fn group(name: &str) -> Option<&'static Group> {
    // The most dangerous group that lists it.
    GROUPS.iter().filter(|g| listed(g.names, name)).max_by_key(|g| g.kind.verdict())
}

pub(crate) fn is_wrapper(name: &str) -> bool {
    listed(WRAPPERS, name)
}

pub(crate) fn is_decoder(name: &str) -> bool {
    listed(DECODERS, name)
}

pub(crate) fn is_network(name: &str) -> bool {
    listed(FETCHERS, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_program_is_both_harmless_and_not() {
        for group_of_names in GROUPS {
            for name in group_of_names.names.split_whitespace() {
                let verdicts: Vec<_> =
                    GROUPS.iter().filter(|g| listed(g.names, name)).map(|g| g.kind.verdict()).collect();
                assert!(verdicts.iter().all(|v| *v == verdicts[0]), "{name}: {verdicts:?}");
            }
        }
        assert!(GROUPS.iter().map(|g| g.names.split_whitespace().count()).sum::<usize>() > 500);
    }
}
