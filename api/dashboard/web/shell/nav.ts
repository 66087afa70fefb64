import {
  type Icon,
  IconActivity,
  IconBox,
  IconCreditCard,
  IconHistory,
  IconKey,
  IconLayoutDashboard,
  IconListDetails,
  IconMessage,
  IconStack2,
  IconUsers,
  IconWebhook,
} from '@tabler/icons-react'
import { type ComponentType, type LazyExoticComponent, lazy } from 'react'
import type { Role } from '../../wire/person.ts'

export type NavEntry = {
  /** Below the organisation: "keys". The page also gets everything below it. */
  path: string
  label: string
  icon: Icon
  page: LazyExoticComponent<ComponentType>
  /** Whoever has less does not see it. */
  role?: Role
}

/** The pages of an organisation, in groups, as the navigation shows them. */
export const navGroups: { label: string; entries: NavEntry[] }[] = [
  {
    label: 'Build',
    entries: [
      {
        path: 'overview',
        label: 'Overview',
        icon: IconLayoutDashboard,
        page: lazy(() => import('../pages/overview.tsx')),
      },
      {
        path: 'playground',
        label: 'Playground',
        icon: IconMessage,
        page: lazy(() => import('../pages/playground.tsx')),
      },
      { path: 'models', label: 'Models', icon: IconBox, page: lazy(() => import('../pages/models.tsx')) },
      { path: 'keys', label: 'API keys', icon: IconKey, page: lazy(() => import('../pages/keys.tsx')) },
    ],
  },
  {
    label: 'Observe',
    entries: [
      { path: 'requests', label: 'Requests', icon: IconActivity, page: lazy(() => import('../pages/requests.tsx')) },
      { path: 'jobs', label: 'Jobs', icon: IconListDetails, page: lazy(() => import('../pages/jobs.tsx')) },
      { path: 'batches', label: 'Batches', icon: IconStack2, page: lazy(() => import('../pages/batches.tsx')) },
      { path: 'webhooks', label: 'Webhooks', icon: IconWebhook, page: lazy(() => import('../pages/webhooks.tsx')) },
    ],
  },
  {
    label: 'Organisation',
    entries: [
      { path: 'billing', label: 'Billing', icon: IconCreditCard, page: lazy(() => import('../pages/billing.tsx')) },
      { path: 'members', label: 'Members', icon: IconUsers, page: lazy(() => import('../pages/members.tsx')) },
      {
        path: 'audit',
        label: 'Audit log',
        icon: IconHistory,
        page: lazy(() => import('../pages/audit.tsx')),
        role: 'admin',
      },
    ],
  },
]

export const navEntries: NavEntry[] = navGroups.flatMap(({ entries }) => entries)
