//! What `jarvis bench registry` fills a registry with: made-up capabilities of the kinds that agents have, so that words
//! are as common as in a real one.

use crate::error::{Outcome, failed};
use jarvis_protocol::{Capability, CapabilityName, ErrorKind};
use serde_json::json;

const VERBS: [(&str, &str); 24] = [
    ("get", "获取"),
    ("list", "列出"),
    ("create", "创建"),
    ("update", "更新"),
    ("delete", "删除"),
    ("search", "搜索"),
    ("send", "发送"),
    ("convert", "转换"),
    ("calculate", "计算"),
    ("summarize", "总结"),
    ("translate", "翻译"),
    ("validate", "校验"),
    ("export", "导出"),
    ("import", "导入"),
    ("compare", "比较"),
    ("merge", "合并"),
    ("schedule", "安排"),
    ("cancel", "取消"),
    ("download", "下载"),
    ("upload", "上传"),
    ("encrypt", "加密"),
    ("compress", "压缩"),
    ("rename", "重命名"),
    ("archive", "归档"),
];

const THINGS: [(&str, &str); 40] = [
    ("weather", "天气"),
    ("email", "邮件"),
    ("calendar event", "日程"),
    ("file", "文件"),
    ("image", "图片"),
    ("invoice", "发票"),
    ("order", "订单"),
    ("customer", "客户"),
    ("database table", "数据表"),
    ("branch", "分支"),
    ("pull request", "合并请求"),
    ("container", "容器"),
    ("log", "日志"),
    ("currency", "货币"),
    ("stock price", "股价"),
    ("flight", "航班"),
    ("hotel", "酒店"),
    ("restaurant", "餐厅"),
    ("song", "歌曲"),
    ("movie", "电影"),
    ("recipe", "菜谱"),
    ("task", "任务"),
    ("note", "笔记"),
    ("contact", "联系人"),
    ("message", "消息"),
    ("video", "视频"),
    ("document", "文档"),
    ("spreadsheet", "表格"),
    ("password", "密码"),
    ("certificate", "证书"),
    ("domain", "域名"),
    ("report", "报告"),
    ("ticket", "工单"),
    ("product", "商品"),
    ("payment", "付款"),
    ("subscription", "订阅"),
    ("employee", "员工"),
    ("project", "项目"),
    ("device", "设备"),
    ("sensor", "传感器"),
];

const OF: [(&str, &str); 12] = [
    ("for a team", "按团队"),
    ("by region", "按地区"),
    ("from last month", "上个月的"),
    ("with tags", "带标签的"),
    ("for testing", "用于测试"),
    ("by owner", "按所有者"),
    ("in the archive", "在存档里"),
    ("with a deadline", "有期限的"),
    ("for review", "待审核的"),
    ("by priority", "按优先级"),
    ("of a shop", "某个店铺的"),
    ("in the cloud", "在云端"),
];

/// The `number`th; no two are alike.
pub fn capability(number: u32) -> Outcome<Capability> {
    let n = number as usize;
    let (verb, thing, of) = (n % VERBS.len(), n / VERBS.len() % THINGS.len(), n / VERBS.len() / THINGS.len());
    let ((verb, verb_zh), (thing, thing_zh), (of, of_zh)) = (VERBS[verb], THINGS[thing], OF[of % OF.len()]);
    let name = CapabilityName::new(format!("{verb}_{}_{number}", thing.replace(' ', "_")))
        .map_err(|e| failed(ErrorKind::Internal, format!("a made-up name: {e}")))?;
    // Every fifth in Chinese.
    let sentence = match n % 5 {
        4 => format!("{verb_zh}{of_zh}{thing_zh}，系列 {number}"),
        _ => format!("{verb} the {thing} {of}, series {number}"),
    };
    let mut capability = Capability::new(name, sentence);
    capability.triggers = vec![format!("a {thing} {of} is wanted"), format!("需要{verb_zh}{of_zh}{thing_zh}")];
    capability.parameters = json!({"type": "object", "required": ["id"], "properties": {
        "id": {"type": "string", "description": format!("which {thing}")},
        "limit": {"type": "integer", "description": "most results"}}});
    Ok(capability)
}

/// Requests in both languages: words of the registry in other company, plain language, and some that nothing fits.
pub fn queries() -> Vec<String> {
    let mut out: Vec<String> = (0..60)
        .map(|i| {
            let ((verb, verb_zh), (thing, thing_zh)) = (VERBS[i * 7 % VERBS.len()], THINGS[i * 11 % THINGS.len()]);
            let (of, of_zh) = OF[i % OF.len()];
            if i % 4 == 3 {
                format!("帮我{verb_zh}{of_zh}{thing_zh}")
            } else {
                format!("please {verb} my {thing} {of}")
            }
        })
        .collect();
    let plain = [
        "what's the weather like in Tokyo",
        "email Bob the report",
        "is my flight delayed?",
        "where can I eat near the hotel",
        "how do I get rid of this file",
        "which pull requests are waiting",
        "上海明天会下雨吗",
        "给老板发一封邮件",
        "附近有什么好吃的",
        "把这张图片缩小",
        "hi there",
        "谢谢",
        "who wrote War and Peace",
        "write me a poem about the sea",
        "fold an origami crane",
    ];
    out.extend(plain.iter().map(|text| (*text).to_owned()));
    out
}
