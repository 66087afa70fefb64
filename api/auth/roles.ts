/** From the humblest to the highest: each may do what the ones before may (docs/decisions/accounts.md). */
export const roles = ['member', 'admin', 'owner'] as const
export type Role = (typeof roles)[number]

/** Whether a role may do what another may. */
export function hasRole(role: Role, needed: Role): boolean {
  return roles.indexOf(role) >= roles.indexOf(needed)
}
