/** How many times fewer cases `npm test` tries than `npm run test:nightly`, which sets `FUZZ=long`. */
const quickShare = 5

/** How many random cases a property is tried with: `nightly` of them every night, a fifth of that in `npm test`. */
export function fuzzRuns(nightly: number): number {
  return process.env.FUZZ === 'long' ? nightly : Math.ceil(nightly / quickShare)
}
