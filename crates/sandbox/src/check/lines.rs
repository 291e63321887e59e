//! From places in the printed JavaScript back to the person's lines.

/// Sorted by place in the output; all numbers 0-based.
#[derive(Debug, Clone, Default)]
pub(super) struct LineMap(Vec<Span>);

#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub out: (u32, u32),
    pub source: (u32, u32),
}

impl LineMap {
    pub(super) fn new(mut spans: Vec<Span>) -> Self {
        spans.sort_unstable_by_key(|span| span.out);
        Self(spans)
    }

    /// 1-based in, 1-based out.
    pub(super) fn original(&self, line: u32, column: u32) -> Option<(u32, u32)> {
        let wanted = (line.checked_sub(1)?, column.saturating_sub(1));
        let after = self.0.partition_point(|span| span.out <= wanted);
        // A place before the first mark of its line belongs to that mark.
        let span = match after.checked_sub(1).map(|at| self.0[at]) {
            Some(span) if span.out.0 == wanted.0 => span,
            _ => self.0.get(after).copied().filter(|span| span.out.0 == wanted.0)?,
        };
        Some((span.source.0 + 1, span.source.1 + 1))
    }
}
