import { Tabs } from '@mantine/core'
import { lazy, Suspense } from 'react'
import { Route, Switch, useLocation } from 'wouter'
import { NotFound, Page } from '../../components/page.tsx'
import { Loading } from '../../components/states.tsx'
import { useMe } from '../../session.tsx'
import { operatorPages } from '../../shell/nav.ts'
import { OperatorAuditLog } from './audit.tsx'
import { Home } from './home.tsx'
import { Models } from './models.tsx'
import { OrganisationPage } from './organisation.tsx'
import { Organisations } from './organisations.tsx'
import { People } from './people.tsx'
import { ProviderPage } from './provider.tsx'
import { Providers } from './providers.tsx'
import { Queues } from './queues.tsx'
import { Servers } from './servers.tsx'

const IncidentPage = lazy(() => import('./incident.tsx'))
const LogExports = lazy(() => import('./log-exports.tsx'))
const Notifications = lazy(() => import('./notifications.tsx'))

/** The operator area: all organisations, providers, users and queues. */
export default function Operator() {
  const me = useMe()
  if (me.data && !me.data.operator)
    return <NotFound title="Operators only">Ask an operator of this service for access.</NotFound>
  return (
    <Switch>
      {/* The name of a region has a slash. */}
      <Route path="/operator/providers/*">{({ '*': name }) => <ProviderPage key={name} name={name} />}</Route>
      <Route path="/operator/incidents/:id">
        {({ id }) => (
          <Suspense fallback={<Loading />}>
            <IncidentPage key={id} id={id} />
          </Suspense>
        )}
      </Route>
      <Route path="/operator/log-exports/:id">
        {({ id }) => (
          <Suspense fallback={<Loading />}>
            <LogExports id={id} />
          </Suspense>
        )}
      </Route>
      <Route path="/operator/organisations/:id/*?">{({ id }) => <OrganisationPage key={id} id={id} />}</Route>
      <Route>
        <Views />
      </Route>
    </Switch>
  )
}

function Views() {
  const [location, navigate] = useLocation()
  const { path: current, label } = operatorPages.findLast(({ path }) => location.startsWith(path))!
  return (
    <Page
      title="Operator area"
      {...(current !== '/operator' && { id: `· ${label}` })}
      description="How this service does, and its providers, queues, organisations and users."
    >
      <Tabs value={current} onChange={path => path && navigate(path)} keepMounted={false}>
        <Tabs.List mb="md">
          {operatorPages.map(({ path, label }) => (
            <Tabs.Tab key={path} value={path}>
              {label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="/operator">
          <Home />
        </Tabs.Panel>
        <Tabs.Panel value="/operator/providers">
          <Providers />
        </Tabs.Panel>
        <Tabs.Panel value="/operator/models">
          <Models />
        </Tabs.Panel>
        <Tabs.Panel value="/operator/servers">
          <Servers />
        </Tabs.Panel>
        <Tabs.Panel value="/operator/notifications">
          <Suspense fallback={<Loading />}>
            <Notifications />
          </Suspense>
        </Tabs.Panel>
        <Tabs.Panel value="/operator/log-exports">
          <Suspense fallback={<Loading />}>
            <LogExports />
          </Suspense>
        </Tabs.Panel>
        <Tabs.Panel value="/operator/audit">
          <OperatorAuditLog />
        </Tabs.Panel>
        <Tabs.Panel value="/operator/queues">
          <Queues />
        </Tabs.Panel>
        <Tabs.Panel value="/operator/organisations">
          <Organisations />
        </Tabs.Panel>
        <Tabs.Panel value="/operator/people">
          <People />
        </Tabs.Panel>
      </Tabs>
    </Page>
  )
}
