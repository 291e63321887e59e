//! What a text looks like, whole and in pieces, in terminals of every width.

use super::Markdown;
use crate::term::{self, Style};
use unicode_width::UnicodeWidthStr;

fn render(text: &str, width: usize, style: Style) -> String {
    let mut markdown = Markdown::new(width, style);
    markdown.push(text) + &markdown.finish()
}

fn plain(text: &str, width: usize) -> String {
    render(text, width, Style::never())
}

const DOCUMENT: &str = "# The answer\n\nIt is **42**, as `f(6, 7)` says; see [the book](https://example.com/b).\n\n\
    1. first\n2. second with *more*\n   - inner 中文\n   - `code`\n3. third:\n   ```rust\n   fn f() {}\n\n   // end\n   ```\n\n\
    > quoted **text**\n> - item\n\n| Name | Qty |\n|:-----|----:|\n| apple | 3 |\n| 西瓜 | 12 |\n\n---\nlast\\\nline  \nend\n";

#[test]
fn every_kind_of_block_is_laid_out() {
    let expected = "\
The answer

It is 42, as f(6, 7) says; see the book
(https://example.com/b).

1. first
2. second with more
   • inner 中文
   • code
3. third:
     fn f() {}

     // end

│ quoted text
│ • item

Name  │ Qty
──────┼────
apple │   3
西瓜  │  12

────────────────────────────────────────
last
line
end";
    assert_eq!(plain(DOCUMENT, 40), expected);
}

#[test]
fn words_are_shown_before_their_line_is_over_and_half_a_mark_is_not() {
    let mut markdown = Markdown::new(60, Style::never());
    assert_eq!(markdown.push("The an"), "The");
    assert_eq!(markdown.push("swer is "), " answer is");
    assert_eq!(markdown.push("**very lo"), "");
    assert_eq!(markdown.push("ng** inde"), " very long");
    assert_eq!(markdown.push("ed\n\n- an it"), " indeed\n\n• an");
    assert_eq!(markdown.push("em\n```py\nx = 1\ny"), " item\n  x = 1");
    assert_eq!(markdown.finish(), "\n  y");
    let mut markdown = Markdown::new(60, Style::never());
    assert_eq!(markdown.push("所有能被七整除的"), "所有能被七整除");
    assert_eq!(markdown.push("**数**。好"), "的数。");
}

#[test]
fn chinese_is_broken_between_characters_and_never_before_what_closes() {
    let text = "所有能被七整除的数，都可以写成七的倍数。English words 混在一起（也可以）。";
    for width in 8..40 {
        let shown = plain(text, width);
        for row in shown.lines() {
            assert!(row.width() <= width, "{width}: {row}");
            assert!(!row.starts_with(['，', '。', '）']) && !row.ends_with('（'), "{width}: {shown}");
        }
        assert_eq!(shown.replace(['\n', ' '], ""), text.replace(' ', ""), "{width}");
    }
}

#[test]
fn what_is_no_emphasis_to_a_reader_stays_as_it_is() {
    for text in [
        "2*3*4 = 24",
        "snake_case_name",
        "2 * 3 * 4",
        "~5 to ~10",
        "a < b and b > c",
        "5**2**3",
        "C:\\temp\\x",
        "[x] done",
    ] {
        assert_eq!(plain(text, 60), text);
    }
    assert_eq!(plain("这是**重点**内容", 60), "这是重点内容");
    assert_eq!(plain("a &lt; b<br>c", 60), "a < b\nc");
}

#[test]
fn a_table_that_is_too_wide_is_cut_and_one_that_is_none_stays_text() {
    let table =
        "| 名称 | description |\n|---|---|\n| 一个很长的名字在这里 | a long description of it, with **bold** |\n";
    let shown = plain(table, 30);
    assert!(shown.lines().all(|row| row.width() <= 30) && shown.contains('…'), "{shown}");
    let many = format!("|{}\n|{}\n|{}\n", " head |".repeat(20), "---|".repeat(20), " cell |".repeat(20));
    assert!(plain(&many, 24).lines().all(|row| row.width() <= 24));
    assert_eq!(plain("| just a bar\n", 30), "| just a bar");
}

#[test]
fn lists_count_on_and_nest_as_they_are_written() {
    assert_eq!(plain("1. a\n1. b\n\n   more\n1. c", 40), "1. a\n2. b\n\n   more\n3. c");
    assert_eq!(plain("3. a\n- b\n    - deep\n- c", 40), "3. a\n• b\n  • deep\n• c");
    assert_eq!(plain("1. a\n  - lenient\n2. b", 40), "1. a\n   • lenient\n2. b");
    assert_eq!(plain("-\n- x\n\ntext", 40), "• \n• x\n\ntext");
    assert_eq!(plain("born in\n1986. Then", 40), "born in 1986. Then");
}

#[test]
fn code_has_colours_and_a_text_can_set_none() {
    let shown = render("```rust\nlet x = \"s\"; // c\n```\n**b** \u{1b}[31mred &#27;[2J", 60, Style::always());
    let shown = term::visible(&shown);
    assert!(shown.contains("\u{1b}[35mlet\u{1b}[0m") && shown.contains("\u{1b}[32m\"s\"\u{1b}[0m"), "{shown:?}");
    assert!(shown.contains("\u{1b}[1mb\u{1b}[0m"), "{shown:?}");
    assert!(!shown.contains("\u{1b}[31m") && !shown.contains("\u{1b}[2J"), "{shown:?}");
    assert!(shown.contains("\\u{1b}[31mred \\u{1b}[2J"), "{shown:?}");
}

#[test]
fn a_text_that_is_all_marks_takes_no_time() {
    let began = std::time::Instant::now();
    for evil in ["*", "`", "[", ">", "- ", "| ", "<a ", "_*", "&", "\\", "1. ", "#", "中*"] {
        for text in
            [evil.repeat(20_000), format!("{evil}\n").repeat(5_000), format!("```rust\n{}\n", evil.repeat(9_000))]
        {
            let shown = plain(&text, 60);
            assert!(shown.lines().all(|row| row.width() <= 60), "{evil}");
        }
    }
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}

/// Pieces that documents are made of; together they meet in every way.
const PARTS: &[&str] = &[
    "word ",
    "longer-words ",
    "**bold** ",
    "**",
    "*",
    "_it_",
    "`code`",
    "`",
    "``",
    "[a](b)",
    "[",
    "](",
    ")",
    "<br>",
    "<",
    "~~s~~",
    "\n",
    "\n\n",
    "\r\n",
    "- ",
    "* ",
    "1. ",
    "23) ",
    "  ",
    "    ",
    "\t",
    "# ",
    "### ",
    "> ",
    "| a | b |\n",
    "|---|---|\n",
    "---\n",
    "```\n",
    "```rust\n",
    "~~~~\n",
    "fn f() -> u8 { 0 } // c\n",
    "中文字",
    "，",
    "（好）",
    "👨‍👩‍👧",
    "e\u{301}",
    "❤\u{fe0f}",
    "\\",
    "\\\n",
    "  \n",
    "&amp;",
    "\u{1b}[2J",
    "\u{202e}",
    "https://example.com/a/very/long/path/that/no/narrow/row/can/hold",
    "===\n",
];

#[test]
fn in_any_pieces_the_text_is_the_same_and_no_row_is_too_wide() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap_or_default()
    };
    for _ in 0..3000 {
        let count = 1 + random(30);
        let text: String = (0..count).map(|_| PARTS[random(PARTS.len())]).collect();
        let width = [8, 13, 20, 40, 60, 80, 200][random(7)];
        let whole = plain(&text, width);
        let mut markdown = Markdown::new(width, Style::never());
        let mut pieces = String::new();
        let (mut rest, step) = (text.as_str(), 1 + random(12));
        while !rest.is_empty() {
            let end = rest.char_indices().nth(1 + random(step)).map_or(rest.len(), |(at, _)| at);
            pieces += &markdown.push(&rest[..end]);
            rest = &rest[end..];
        }
        pieces += &markdown.finish();
        assert_eq!(pieces, whole, "{text:?} at {width}");
        for row in whole.split('\n') {
            assert!(row.width() <= width, "{} columns at {width}: {row:?} of {text:?}", row.width());
        }
        assert!(!whole.contains(jarvis_protocol::is_deceptive), "{whole:?}");
    }
}
