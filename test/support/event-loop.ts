/** Does `work` and counts the turns of the event loop meanwhile, in each of which other work of the process could run. */
export async function countTurns(work: () => Promise<unknown>): Promise<number> {
  let turns = 0
  let isDone = false
  const count = () => {
    turns++
    if (!isDone) setImmediate(count)
  }
  setImmediate(count)
  await work().finally(() => {
    isDone = true
  })
  return turns
}
