/** A process ends by itself at once when its tests left nothing open. */
const exitsWithinMs = 20_000

/**
 * Ends this process, which has run its last test, when something keeps it alive: a connection, a server, a worker of a queue or
 * a child process that a test opened and, maybe because it failed, did not close. The run fails, and goes on.
 */
export function expectExit(): void {
  const end = () => {
    const open = Map.groupBy(process.getActiveResourcesInfo(), kind => kind)
    const list = [...open].map(([kind, { length }]) => `${length} ${kind}`).join(', ')
    process.stderr.write(`ended ${exitsWithinMs / 1_000} s after its last test, which left open: ${list}\n`)
    process.exit(1)
  }
  setTimeout(end, exitsWithinMs).unref()
}
