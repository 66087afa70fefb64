/** In ascending order: each role includes the permissions of those before it (docs/decisions/accounts.md). */
export const roles = ['member', 'admin', 'owner'] as const
export type Role = (typeof roles)[number]

/** Whether a role includes the permissions of another; null, no role, includes none. */
export function hasRole(role: Role | null, needed: Role): boolean {
  return role !== null && roles.indexOf(role) >= roles.indexOf(needed)
}
