import {
  type Icon,
  IconActivity,
  IconAdjustments,
  IconBell,
  IconBox,
  IconChartBar,
  IconCreditCard,
  IconDatabaseExport,
  IconHistory,
  IconKey,
  IconLayoutDashboard,
  IconListDetails,
  IconMessage,
  IconSettings,
  IconStack2,
  IconUsers,
  IconWebhook,
} from '@tabler/icons-react'
import { type ComponentType, type LazyExoticComponent, lazy } from 'react'

export type NavEntry = {
  /** The path below the organisation: "keys". The page also handles all paths below it. Who sees it: page-permissions.ts. */
  path: string
  label: string
  icon: Icon
  page: LazyExoticComponent<ComponentType>
}

/** The pages of an organisation, in the groups of the navigation. */
export const navGroups: { label: string; entries: NavEntry[] }[] = [
  {
    label: 'Build',
    entries: [
      {
        path: 'overview',
        label: 'Overview',
        icon: IconLayoutDashboard,
        page: lazy(() => import('../pages/overview/index.tsx')),
      },
      {
        path: 'playground',
        label: 'Playground',
        icon: IconMessage,
        page: lazy(() => import('../pages/playground/index.tsx')),
      },
      {
        path: 'models',
        label: 'Models',
        icon: IconBox,
        page: lazy(() => import('../pages/models/index.tsx')),
      },
      {
        path: 'presets',
        label: 'Presets',
        icon: IconAdjustments,
        page: lazy(() => import('../pages/presets/index.tsx')),
      },
      {
        path: 'keys',
        label: 'API keys',
        icon: IconKey,
        page: lazy(() => import('../pages/keys/index.tsx')),
      },
    ],
  },
  {
    label: 'Observe',
    entries: [
      {
        path: 'requests',
        label: 'Requests',
        icon: IconActivity,
        page: lazy(() => import('../pages/requests/index.tsx')),
      },
      {
        path: 'usage',
        label: 'Usage',
        icon: IconChartBar,
        page: lazy(() => import('../pages/usage/index.tsx')),
      },
      {
        path: 'jobs',
        label: 'Jobs',
        icon: IconListDetails,
        page: lazy(() => import('../pages/jobs/index.tsx')),
      },
      {
        path: 'batches',
        label: 'Batches',
        icon: IconStack2,
        page: lazy(() => import('../pages/batches/index.tsx')),
      },
      {
        path: 'webhooks',
        label: 'Webhooks',
        icon: IconWebhook,
        page: lazy(() => import('../pages/webhooks/index.tsx')),
      },
      {
        path: 'alerts',
        label: 'Alerts',
        icon: IconBell,
        page: lazy(() => import('../pages/alerts/index.tsx')),
      },
    ],
  },
  {
    label: 'Organisation',
    entries: [
      {
        path: 'billing',
        label: 'Billing',
        icon: IconCreditCard,
        page: lazy(() => import('../pages/billing/index.tsx')),
      },
      {
        path: 'members',
        label: 'Members',
        icon: IconUsers,
        page: lazy(() => import('../pages/members/index.tsx')),
      },
      {
        path: 'audit',
        label: 'Audit log',
        icon: IconHistory,
        page: lazy(() => import('../pages/audit/index.tsx')),
      },
      {
        path: 'log-exports',
        label: 'Log exports',
        icon: IconDatabaseExport,
        page: lazy(() => import('../pages/log-exports/index.tsx')),
      },
      {
        path: 'settings',
        label: 'Settings',
        icon: IconSettings,
        page: lazy(() => import('../pages/settings/index.tsx')),
      },
    ],
  },
]

export const navEntries: NavEntry[] = navGroups.flatMap(({ entries }) => entries)

/** The tabs of the operator area. */
export const operatorPages = [
  { path: '/operator', label: 'Home' },
  { path: '/operator/providers', label: 'Providers' },
  { path: '/operator/models', label: 'Models' },
  { path: '/operator/servers', label: 'Servers' },
  { path: '/operator/queues', label: 'Queues' },
  { path: '/operator/organisations', label: 'Organisations' },
  { path: '/operator/people', label: 'Users' },
  { path: '/operator/notifications', label: 'Notifications' },
  { path: '/operator/log-exports', label: 'Log exports' },
  { path: '/operator/audit', label: 'Audit' },
]
