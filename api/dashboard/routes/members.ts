import { usdFromNano } from '../../../shared/base/money.ts'
import { may, type Role } from '../../../shared/base/roles.ts'
import { monthOf } from '../../../shared/base/time.ts'
import type { Platform } from '../../../shared/platform.ts'
import { maxMembers } from '../../auth/accounts.ts'
import { endpoint } from '../../endpoint.ts'
import type { MembersAnswer } from '../wire/members.ts'

const list = endpoint({
  method: 'get',
  path: '/dashboard/api/organisations/{organisation}/members',
  tag: 'Dashboard',
  summary: 'List members with their API keys and what these spent this month',
  description: 'When members were last active and whether they use two factors is for administrators.',
  access: { permission: 'view_money' },
  answers: { 200: { description: 'All members, oldest first.' } },
  async handle({ services, organisationId, role: viewer }): Promise<MembersAnswer> {
    const rows = await services.db.membership.findMany({
      where: { organisationId },
      include: { user: { select: { name: true, email: true, twoFactorEnabled: true } } },
      orderBy: [{ createdAt: 'asc' }, { id: 'asc' }],
      take: maxMembers,
    })
    const mayWatch = may(viewer, 'manage')
    const userIds = rows.map(({ userId }) => userId)
    const [keys, withPassword] = await Promise.all([
      sumKeys(services, organisationId),
      mayWatch ? listWithPassword(services, userIds) : new Set<string>(),
    ])
    const data = rows.map(({ id, userId, user, role, createdAt, lastActiveAt }) => ({
      id,
      user_id: userId,
      name: user.name,
      email: user.email,
      role: role as Role,
      joined_at: createdAt.toISOString(),
      keys: Number(keys.get(userId)?.usable ?? 0),
      spend_month_usd: usdFromNano(keys.get(userId)?.spentNano ?? 0n),
      account: mayWatch
        ? {
            last_active_at: lastActiveAt?.toISOString() ?? null,
            two_factor: user.twoFactorEnabled || !withPassword.has(userId),
          }
        : null,
    }))
    return { data }
  },
})

type KeySums = { userId: string; usable: bigint; spentNano: bigint }

/** The usable keys of each creator, and what all of their keys spent this month, from the sums by key and month. */
async function sumKeys({ db, clock }: Platform, organisationId: string): Promise<Map<string, KeySums>> {
  const nowMs = clock.now()
  const rows = await db.$queryRaw<KeySums[]>`
    SELECT k.created_by_id AS "userId", coalesce(sum(s.spent_nano), 0)::bigint AS "spentNano",
      count(*) FILTER (WHERE k.revoked_at IS NULL AND NOT k.disabled
        AND (k.expires_at IS NULL OR k.expires_at > ${new Date(nowMs)})) AS usable
    FROM api_keys k LEFT JOIN key_spend s ON s.key_id = k.id AND s.month = ${monthOf(nowMs)}
    WHERE k.organisation_id = ${organisationId} AND k.created_by_id IS NOT NULL
    GROUP BY k.created_by_id`
  return new Map(rows.map(row => [row.userId, row]))
}

/** Those who can sign in with a password of this service. */
async function listWithPassword({ db }: Platform, userIds: string[]): Promise<Set<string>> {
  const where = { userId: { in: userIds }, providerId: 'credential', password: { not: null } }
  const rows = await db.account.findMany({ where, select: { userId: true } })
  return new Set(rows.map(({ userId }) => userId))
}

export const memberRoutes = [list]
