import { useQuery } from '@tanstack/react-query'
import type { MembersAnswer } from '../../../wire/members.ts'
import type { Role } from '../../../wire/person.ts'
import { call } from '../../api.ts'
import { type Place, usePlace } from '../../session.tsx'

export type { Member } from '../../../wire/members.ts'

/** The members of the organisation, oldest first. */
export function useMembers() {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'members'],
    queryFn: async ({ signal }) => (await call<MembersAnswer>(`${base}/members`, { signal })).data,
  })
}

/** The roles that the user can give to others. */
export function rolesGivenBy({ may }: Place): Role[] {
  return may('owner') ? ['member', 'admin', 'owner'] : ['member', 'admin']
}
