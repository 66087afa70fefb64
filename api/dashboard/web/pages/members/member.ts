import type { Role } from '../../../wire/person.ts'

/** A member as the account library returns it. */
export type Member = {
  id: string
  role: Role
  createdAt: string
  userId: string
  user: { name: string; email: string }
}
