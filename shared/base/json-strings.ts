const quote = 0x22
const backslash = 0x5c

/**
 * Finds the ends of strings in JSON, in received bytes and in decoded text. Both are in the hot path, so each scans its own
 * representation; they share the rule that backslashes escape each other in pairs.
 */

const isEscaped = (backslashes: number) => backslashes % 2 === 1

/** Bytes of a string scanned one by one first: one call of the native search costs as much as scanning these. */
const minNearBytes = 16

/**
 * Returns the position of the closing quote of the string that starts at `open`; -1 if there is none. The native search
 * is fast over long text and slow where many quotes are escaped: after each escaped quote, twice as many bytes are
 * scanned one by one.
 */
export function closingQuote(raw: Buffer, open: number): number {
  let at = open + 1
  for (let nearBytes = minNearBytes; at < raw.length; nearBytes *= 2) {
    for (const near = Math.min(at + nearBytes, raw.length); at < near; at++) {
      const byte = raw[at]
      if (byte === quote) return at
      if (byte === backslash) at++
    }
    const next = raw.indexOf(quote, at)
    // The bytes before it are scanned again, unless the last one cannot escape it.
    if (next < 0 || raw[next - 1] !== backslash) return next
    let run = next
    while (run > at && raw[run - 1] === backslash) run--
    if (!isEscaped(next - run)) return next
    at = next + 1
  }
  return -1
}

/** Returns the position after the string whose opening quote is at `open`, in valid JSON. */
export function stringEnd(text: string, open: number): number {
  for (let at = text.indexOf('"', open + 1); ; at = text.indexOf('"', at + 1)) {
    let run = at
    while (text.charCodeAt(run - 1) === backslash) run--
    if (!isEscaped(at - run)) return at + 1
  }
}
