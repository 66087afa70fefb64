import { Stack, Title } from '@mantine/core'
import { lazy, type ReactNode, Suspense } from 'react'
import { Redirect, Route, Switch } from 'wouter'
import { Boundary } from './components/boundary.tsx'
import { Loading } from './components/states.tsx'
import { NavigationFocus } from './shell/navigation-focus.tsx'
import { VisitorShell } from './shell/visitor-shell.tsx'
import { useZone } from './time-zone.ts'

// Visitors need none of it; the document's `Link` header names it for everybody else (page-links.ts).
const OrganisationShell = lazy(() => import('./shell/organisation-shell.tsx'))
const Welcome = lazy(() => import('./pages/sign-in/welcome.tsx'))
const Account = lazy(() => import('./pages/account/index.tsx'))
const Operator = lazy(() => import('./pages/operator/index.tsx'))
const visitorPages = [
  { path: '/sign-in', page: lazy(() => import('./pages/sign-in/sign-in.tsx')) },
  { path: '/sign-up', page: lazy(() => import('./pages/sign-in/sign-up.tsx')) },
  { path: '/forgot-password', page: lazy(() => import('./pages/sign-in/forgot-password.tsx')) },
  { path: '/reset-password', page: lazy(() => import('./pages/sign-in/reset-password.tsx')) },
  { path: '/verify-email', page: lazy(() => import('./pages/sign-in/verify-email.tsx')) },
  { path: '/invitations/:id', page: lazy(() => import('./pages/sign-in/invitation.tsx')) },
  { path: '/outbox', page: lazy(() => import('./pages/outbox/index.tsx')) },
  { path: '/welcome', page: Welcome },
]

/** Around the message of a page whose layout could not be loaded. */
function Alone({ children }: { children: ReactNode }) {
  return (
    <VisitorShell>
      <Stack>
        <Title order={1}>Dashboard</Title>
        {children}
      </Stack>
    </VisitorShell>
  )
}

export function App() {
  // All times are rendered again when the zone changes.
  useZone()
  return (
    <>
      <NavigationFocus />
      <Switch>
        {visitorPages.map(({ path, page: VisitorPage }) => (
          <Route key={path} path={path}>
            <VisitorShell>
              <Boundary>
                <Suspense fallback={<Loading rows={3} />}>
                  <VisitorPage />
                </Suspense>
              </Boundary>
            </VisitorShell>
          </Route>
        ))}
        <Route>
          <Boundary frame={Alone}>
            <Suspense fallback={null}>
              <Switch>
                <Route path="/account">
                  <OrganisationShell organisationId={null}>
                    <Account />
                  </OrganisationShell>
                </Route>
                <Route path="/operator/*?">
                  <OrganisationShell organisationId={null}>
                    <Operator />
                  </OrganisationShell>
                </Route>
                <Route path="/:organisation/*?">
                  {({ organisation }) => <OrganisationShell organisationId={organisation} />}
                </Route>
                <Route path="/">
                  <OrganisationShell organisationId={null}>
                    <Redirect to="/welcome" replace />
                  </OrganisationShell>
                </Route>
              </Switch>
            </Suspense>
          </Boundary>
        </Route>
      </Switch>
    </>
  )
}
