// Preloaded into a process whose wall clock is wrong by HEADGATE_CLOCK_SKEW_MS; its monotonic clock stays right.
const skewMs = Number(process.env.HEADGATE_CLOCK_SKEW_MS)
const RealDate = Date
globalThis.Date = class extends RealDate {
  constructor(...parts) {
    super(...(parts.length === 0 ? [RealDate.now() + skewMs] : parts))
  }

  static now() {
    return RealDate.now() + skewMs
  }
}
