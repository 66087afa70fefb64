import { useQuery } from '@tanstack/react-query'
import type { MembersAnswer } from '../../../wire/members.ts'
import { call } from '../../api.ts'
import { usePlace } from '../../session.tsx'

export type { Member } from '../../../wire/members.ts'

/** The members of the organisation, oldest first. */
export function useMembers() {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'members'],
    queryFn: async ({ signal }) => (await call<MembersAnswer>(`${base}/members`, { signal })).data,
  })
}
