import { AppShell, Box, Burger, Group, NavLink, ScrollArea, Select, Stack, Text } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { IconArrowLeft, IconBook, IconShieldCog } from '@tabler/icons-react'
import { lazy, type ReactNode, Suspense, useEffect, useMemo, useState } from 'react'
import { Link, Redirect, Route, Switch, useLocation } from 'wouter'
import type { Me } from '../../wire/person.ts'
import { Boundary } from '../components/boundary.tsx'
import { useRememberedList } from '../components/list-address.ts'
import { OutageNotice } from '../components/outage.tsx'
import { NotFound } from '../components/page.tsx'
import { Loading, Pending } from '../components/states.tsx'
import { type Place, PlaceContext, placeOf, useMe } from '../session.tsx'
import { Brand } from './brand.tsx'
import { type NavEntry, navEntries, navGroups } from './nav.ts'
import { Palette } from './palette.tsx'
import { PersonMenu } from './person-menu.tsx'
import { SchemeSwitch } from './scheme-switch.tsx'
import { SuspendedNotice } from './suspended-notice.tsx'
import { VerifyNotice } from './verify-notice.tsx'

const RequiredSetUp = lazy(() => import('./required-set-up.tsx'))
const lastPlaceName = 'headgate-organisation'

/** The layout of the pages behind the sign-in. `organisationId` null: the last one visited, with `children` as the page. */
export default function OrganisationShell({
  organisationId,
  children,
}: {
  organisationId: string | null
  children?: ReactNode
}) {
  const me = useMe()
  // A failed refetch keeps the loaded user, so that a page does not lose its input.
  if (!me.data)
    return (
      <>
        <OutageNotice />
        <Pending query={me} />
      </>
    )
  const { organisations } = me.data
  if (organisations.length === 0 && children === undefined) return <Redirect to="/welcome" replace />
  const wanted = organisationId ?? localStorage.getItem(lastPlaceName)
  const found =
    organisations.find(({ id }) => id === wanted) ?? (organisationId === null ? organisations[0] : undefined)
  return <Frame me={me.data} place={found ? placeOf(found, me.data) : null} page={children} />
}

function Frame({ me, place, page }: { me: Me; place: Place | null; page: ReactNode }) {
  const [opened, { toggle, close }] = useDisclosure()
  const [location, navigate] = useLocation()
  // The operator area is about all organisations: the shell shows none of them.
  const isOperatorArea = location.startsWith('/operator')
  const lists = useMemo(() => listPaths(place), [place])
  useRememberedList(location, lists)
  useEffect(() => {
    if (place) localStorage.setItem(lastPlaceName, place.id)
  }, [place])
  // biome-ignore lint/correctness/useExhaustiveDependencies: navigation closes the menu of small screens
  useEffect(close, [location])
  return (
    <AppShell
      header={{ height: 52 }}
      navbar={{ width: 232, breakpoint: 'sm', collapsed: { mobile: !opened } }}
      padding="md"
    >
      <a className="skip-link" href="#content">
        Skip to content
      </a>
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap" style={{ minWidth: 0 }}>
            <Burger
              opened={opened}
              onClick={toggle}
              hiddenFrom="sm"
              size="sm"
              aria-label={opened ? 'Close menu' : 'Open menu'}
            />
            <Box visibleFrom="xs">
              <Brand />
            </Box>
            {isOperatorArea && (
              <Text size="sm" fw={600}>
                Operator area
              </Text>
            )}
            {!isOperatorArea && me.organisations.length > 0 && (
              <Select
                aria-label="Organisation"
                size="xs"
                w={190}
                data={me.organisations.map(({ id, name }) => ({ value: id, label: name }))}
                value={place?.id ?? null}
                allowDeselect={false}
                onChange={id => id && navigate(`/${id}`)}
              />
            )}
          </Group>
          <Group gap={4} wrap="nowrap">
            {isOperatorArea && me.operator && <Palette me={me} place={null} />}
            {place && !isOperatorArea && (
              <PlaceContext value={place}>
                <Palette me={me} place={place} />
              </PlaceContext>
            )}
            <SchemeSwitch />
            <PersonMenu me={me} />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label="Pages">
        <Navigation me={me} place={isOperatorArea ? null : place} location={location} />
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1}>
        <Box maw={location.endsWith('/requests') ? 1600 : 1180} mx="auto">
          <Stack gap="lg">
            {!me.email_verified && <VerifyNotice me={me} />}
            {place?.suspended && !isOperatorArea && <SuspendedNotice reason={place.suspension_reason} />}
            <OutageNotice />
            <Boundary key={location.split('/')[2] ?? ''}>
              <Suspense fallback={<Loading />}>
                <PlaceContext value={place}>{page ?? <OrganisationPages place={place} />}</PlaceContext>
              </Suspense>
            </Boundary>
          </Stack>
        </Box>
      </AppShell.Main>
    </AppShell>
  )
}

/** The paths of the pages that have a list, whose filters are kept. */
function listPaths(place: Place | null): string[] {
  return ['/operator/organisations', ...(place ? navEntries.map(({ path }) => `${place.home}/${path}`) : [])]
}

function OrganisationPages({ place }: { place: Place | null }) {
  const needsSetUp = place?.require_two_factor === true && !place.me.has_second_factor
  // Once started it stays until the backup codes are shown, although the requirement is met before.
  const [settingUp, setSettingUp] = useState<string | null>(null)
  useEffect(() => {
    if (needsSetUp && place) setSettingUp(place.id)
  }, [needsSetUp, place])
  if (!place)
    return <NotFound title="Organisation not found">It may have been deleted, or you are no longer a member.</NotFound>
  if (needsSetUp || settingUp === place.id)
    return <RequiredSetUp me={place.me} name={place.name} onDone={() => setSettingUp(null)} />
  const visible = navEntries.filter(({ path }) => place.has(path))
  return (
    <Switch>
      {visible.map(({ path, page: OrganisationPage }) => (
        <Route key={path} path={`/:organisation/${path}/*?`}>
          <OrganisationPage key={place.id} />
        </Route>
      ))}
      <Route path="/:organisation">
        <Redirect to={`${place.home}/${visible[0]!.path}`} replace />
      </Route>
      <Route>
        <NotFound title="Page not found">Select a page in the menu.</NotFound>
      </Route>
    </Switch>
  )
}

function Navigation({ me, place, location }: { me: Me; place: Place | null; location: string }) {
  const isCurrent = ({ path }: NavEntry) => place !== null && location.startsWith(`${place.home}/${path}`)
  return (
    <>
      <AppShell.Section grow component={ScrollArea}>
        {place &&
          navGroups
            .map(({ label, entries }) => ({
              label,
              entries: entries.filter(({ path }) => place.has(path)),
            }))
            .filter(({ entries }) => entries.length > 0)
            .map(({ label, entries }) => (
              <Box key={label} mb="sm">
                <Text size="xs" c="dimmed" fw={600} px="sm" py={4}>
                  {label}
                </Text>
                {entries.map(entry => (
                  <NavLink
                    key={entry.path}
                    component={Link}
                    href={`${place.home}/${entry.path}`}
                    label={entry.label}
                    leftSection={<entry.icon size={17} stroke={1.7} aria-hidden />}
                    active={isCurrent(entry)}
                    aria-current={isCurrent(entry) ? 'page' : undefined}
                    py={6}
                  />
                ))}
              </Box>
            ))}
      </AppShell.Section>
      <AppShell.Section>
        {location.startsWith('/operator') && (
          <NavLink
            component={Link}
            href="/"
            label="Back to the dashboard"
            leftSection={<IconArrowLeft size={17} stroke={1.7} aria-hidden />}
            py={6}
          />
        )}
        {me.operator && (
          <NavLink
            component={Link}
            href="/operator"
            label="Operator area"
            leftSection={<IconShieldCog size={17} stroke={1.7} aria-hidden />}
            active={location.startsWith('/operator')}
            py={6}
          />
        )}
        <NavLink
          component="a"
          href="/docs/"
          label="Documentation"
          leftSection={<IconBook size={17} stroke={1.7} aria-hidden />}
          py={6}
        />
      </AppShell.Section>
    </>
  )
}
