/** How many times fewer cases `npm test` tries than `npm run test:nightly`, which sets `FUZZ=long`. */
const quickShare = 5

/** Whether this is the nightly run. */
export const isLongFuzz = process.env.FUZZ === 'long'

/** How many random cases a property is tried with: `nightly` of them every night, a fifth of that in `npm test`. */
export function fuzzRuns(nightly: number): number {
  return isLongFuzz ? nightly : Math.ceil(nightly / quickShare)
}
