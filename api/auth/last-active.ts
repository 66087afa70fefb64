import type { Platform } from '../../shared/platform.ts'

/** A person's calls within this time are one write. */
const precisionMs = 5 * 60_000

/** Notes that a member uses the dashboard, at most once in five minutes. A failure is only logged: the call itself goes on. */
export async function noteActivity(
  { db, clock, log }: Pick<Platform, 'db' | 'clock' | 'log'>,
  { id, lastActiveAt }: { id: string; lastActiveAt: Date | null },
): Promise<void> {
  const nowMs = clock.now()
  const before = new Date(nowMs - precisionMs)
  if (lastActiveAt !== null && lastActiveAt >= before) return
  // Of calls at the same time only the first one writes.
  const isDue = { OR: [{ lastActiveAt: null }, { lastActiveAt: { lt: before } }] }
  await db.membership
    .updateMany({ where: { id, ...isDue }, data: { lastActiveAt: new Date(nowMs) } })
    .catch(err => log.warn({ err, membership: id }, 'the activity of a member was not noted'))
}
