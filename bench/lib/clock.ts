/**
 * Microseconds of the machine's monotonic clock, the same axis in every process: what one process stamps another can
 * subtract. `performance.now()` is cheap to read; its offset to that axis is taken from the tightest of many readings.
 */
export function nowUs(): number {
  return offsetUs + performance.now() * 1e3
}

const readings = 200
const offsetUs = measureOffsetUs()

function measureOffsetUs(): number {
  let best = { widthMs: Infinity, offsetUs: 0 }
  for (let i = 0; i < readings; i++) {
    const beforeMs = performance.now()
    const sharedUs = Number(process.hrtime.bigint()) / 1e3
    const afterMs = performance.now()
    const widthMs = afterMs - beforeMs
    if (widthMs < best.widthMs) best = { widthMs, offsetUs: sharedUs - ((beforeMs + afterMs) / 2) * 1e3 }
  }
  return best.offsetUs
}
