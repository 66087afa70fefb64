import { useQuery } from '@tanstack/react-query'
import type { Role } from '../../../wire/person.ts'
import { call, queryText } from '../../api.ts'
import { usePlace } from '../../session.tsx'

const maxMembers = 500

/** A member as the account library returns it. */
export type Member = {
  id: string
  role: Role
  createdAt: string
  userId: string
  user: { name: string; email: string }
}

/** The members of the organisation, oldest first. */
export function useMembers() {
  const { id } = usePlace()
  return useQuery({
    queryKey: [id, 'members'],
    queryFn: ({ signal }) =>
      call<{ members: Member[] }>(
        `/dashboard/api/auth/organization/list-members${queryText({ organizationId: id, limit: maxMembers, sortBy: 'createdAt' })}`,
        { signal },
      ),
  })
}
