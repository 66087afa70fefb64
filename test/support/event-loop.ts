/** Does `work` and counts the turns of the event loop meanwhile, in each of which other work of the process could run. */
export async function countTurns<T>(work: () => Promise<T>): Promise<{ result: T; turns: number }> {
  let turns = 0
  let isDone = false
  const count = () => {
    turns++
    if (!isDone) setImmediate(count)
  }
  setImmediate(count)
  try {
    return { result: await work(), turns }
  } finally {
    isDone = true
  }
}
