/** Says on the terminal what is being done, as it begins, and what took longer than a moment when it is done. */
export async function step<T>(what: string, work: () => Promise<T>): Promise<T> {
  const startedMs = performance.now()
  console.log(`headgate: ${what} …`)
  const result = await work()
  const tookMs = performance.now() - startedMs
  if (tookMs >= momentMs) console.log(`headgate: ${what}: done in ${(tookMs / 1_000).toFixed(1)} s`)
  return result
}

const momentMs = 1_000
