import type { Permission } from '../../../../shared/base/roles.ts'

/** What a role must include to see a page of an organisation, by its path. */
export const pagePermissions: Readonly<Record<string, Permission>> = {
  overview: 'use',
  playground: 'use',
  models: 'use',
  presets: 'use',
  keys: 'use',
  requests: 'use',
  usage: 'view_money',
  jobs: 'use',
  batches: 'use',
  webhooks: 'use',
  alerts: 'use',
  billing: 'view_money',
  members: 'view_money',
  audit: 'manage',
  'log-exports': 'manage',
  settings: 'use',
}
