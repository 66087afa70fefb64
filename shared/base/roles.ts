/**
 * What a role may do in an organisation. `view_money`: see wallet, statements, usage, budgets and who is a member; `pay`: buy
 * credits; `use`: see everything else but contents and the audit log, and use keys; `manage`: administer all of it; `own`: decide
 * who owns it.
 */
export type Permission = 'view_money' | 'pay' | 'use' | 'manage' | 'own'

/** The permissions of each role (docs/decisions/accounts.md). */
const permissions = {
  member: ['view_money', 'use'],
  billing: ['view_money', 'pay'],
  admin: ['view_money', 'use', 'manage'],
  owner: ['view_money', 'pay', 'use', 'manage', 'own'],
} as const satisfies Record<string, readonly Permission[]>

export type Role = keyof typeof permissions
export const roles = Object.keys(permissions) as [Role, ...Role[]]

/** Whether a role includes a permission; no role, and one of a newer release, includes none. */
export function may(role: Role | null, permission: Permission): boolean {
  const own: readonly Permission[] | undefined = role === null ? undefined : permissions[role]
  return own?.includes(permission) ?? false
}

/** The roles that include a permission. */
export function rolesWith(permission: Permission): Role[] {
  return roles.filter(role => may(role, permission))
}

/** The roles that a role may give to others: none beyond its own permissions. */
export function rolesGivenBy(role: Role | null): Role[] {
  return may(role, 'manage') ? roles.filter(given => permissions[given].every(one => may(role, one))) : []
}
