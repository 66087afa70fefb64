import { Anchor, Breadcrumbs, Group, Stack, Tabs, Text } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { type ComponentType, type LazyExoticComponent, lazy, Suspense, useEffect, useMemo } from 'react'
import { Link, useLocation } from 'wouter'
import type { OrganisationDetail } from '../../../wire/operator.ts'
import type { Me } from '../../../wire/person.ts'
import { Boundary } from '../../components/boundary.tsx'
import { listAddress, useRememberedList } from '../../components/list-address.ts'
import { NotFound, Page } from '../../components/page.tsx'
import { Loading, Pending } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { operatorPlaceOf, PlaceContext, useMe } from '../../session.tsx'
import { OrganisationDetails } from './organisation-details.tsx'
import { useOrganisation } from './queries.ts'

type View = { path: string; label: string; page: LazyExoticComponent<ComponentType> }

/** The organisation's own pages that operators see, as those of the navigation are for its members. */
const views: View[] = [
  { path: 'usage', label: 'Usage', page: lazy(() => import('../usage/index.tsx')) },
  { path: 'requests', label: 'Requests', page: lazy(() => import('../requests/index.tsx')) },
  { path: 'keys', label: 'Keys', page: lazy(() => import('../keys/index.tsx')) },
  { path: 'billing', label: 'Ledger', page: lazy(() => import('../billing/index.tsx')) },
  { path: 'audit', label: 'Audit', page: lazy(() => import('../audit/index.tsx')) },
]
const paths = views.map(({ path }) => path)
const details = 'details'

/** One organisation, for operators. */
export function OrganisationPage({ id }: { id: string }) {
  const organisation = useOrganisation(id)
  const me = useMe()
  const name = organisation.data?.name ?? 'Organisation'
  return (
    <Stack gap="sm">
      <Breadcrumbs>
        <Anchor component={Link} href={listAddress('/operator/organisations')} size="sm">
          Organisations
        </Anchor>
        <Group gap="xs" wrap="nowrap">
          <Text size="sm" lh={1.6} truncate maw={{ base: 200, xs: 480 }}>
            {name}
          </Text>
          {organisation.data?.suspended && <Status value="suspended" size="sm" />}
        </Group>
      </Breadcrumbs>
      {organisation.data && me.data ? (
        <Views organisation={organisation.data} me={me.data} />
      ) : (
        <Page title={name}>
          <Pending query={organisation} />
        </Page>
      )}
    </Stack>
  )
}

/** The tab in the address, at the path below the organisation. */
function Views({ organisation, me }: { organisation: OrganisationDetail; me: Me }) {
  const [location, navigate] = useLocation()
  const place = useMemo(() => operatorPlaceOf(organisation, me, paths), [organisation, me])
  const { home } = place
  const lists = useMemo(() => paths.map(path => `${home}/${path}`), [home])
  useRememberedList(location, lists)
  useForgottenAnswers(organisation.id)
  const current = location.slice(home.length + 1).split('/')[0] || details
  const view = views.find(({ path }) => path === current)
  return (
    <Tabs value={current} onChange={path => navigate(path === details ? home : `${home}/${path}`)} keepMounted={false}>
      <Tabs.List mb="md">
        <Tabs.Tab value={details}>Details</Tabs.Tab>
        {views.map(({ path, label }) => (
          <Tabs.Tab key={path} value={path}>
            {label}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      <Tabs.Panel value={current}>
        <PlaceContext value={place}>
          {current === details && <OrganisationDetails organisation={organisation} />}
          {view && (
            <Boundary key={current}>
              <Suspense fallback={<Loading />}>
                <view.page />
              </Suspense>
            </Boundary>
          )}
          {current !== details && !view && <NotFound title="Page not found">Select a tab.</NotFound>}
        </PlaceContext>
      </Tabs.Panel>
    </Tabs>
  )
}

/** Removes what was read for an operator: a member of the same organisation gets other answers, under the same keys of the cache. */
function useForgottenAnswers(organisationId: string): void {
  const queries = useQueryClient()
  useEffect(() => () => queries.removeQueries({ queryKey: [organisationId] }), [queries, organisationId])
}
