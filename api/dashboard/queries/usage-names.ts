import type { Platform } from '../../../shared/platform.ts'
import type { Dimension } from '../../../shared/wallet/usage-source.ts'
import { readWorkKeys } from './work.ts'

/** What pages show for a group without a value. */
const unnamed: Partial<Record<Dimension, string>> = {
  member: 'API or operator',
  provider: 'No provider',
  model: 'No known model',
  end_user: 'No end user',
  tag: 'Without this tag',
}

/** The display names of groups. */
export async function namesOf(
  services: Platform,
  by: Dimension,
  ids: readonly (string | null)[],
): Promise<(id: string) => string> {
  const known = ids.filter(id => id !== null && id !== '') as string[]
  const names = new Map<string, string>()
  if (by === 'key') {
    for (const [id, { name }] of await readWorkKeys(
      services,
      known.map(keyId => ({ keyId })),
    ))
      names.set(id, name)
  } else if (by === 'member') {
    const people = await services.db.user.findMany({ where: { id: { in: known } }, select: { id: true, name: true } })
    for (const { id, name } of people) names.set(id, name)
  }
  return id => names.get(id) ?? (id === '' ? (unnamed[by] ?? 'None') : id)
}
