import { Tabs } from '@mantine/core'
import { Route, Switch, useLocation } from 'wouter'
import { Page } from '../components/page.tsx'
import { Empty } from '../components/states.tsx'
import { useMe } from '../session.tsx'
import { OrganisationPage } from './operator/organisation.tsx'
import { Organisations } from './operator/organisations.tsx'
import { People } from './operator/people.tsx'
import { Providers } from './operator/providers.tsx'
import { System } from './operator/system.tsx'

const tabs = [
  { path: '/operator', label: 'Organisations' },
  { path: '/operator/providers', label: 'Providers' },
  { path: '/operator/system', label: 'Queues and system' },
  { path: '/operator/people', label: 'People' },
]

/** For operators of the service: every organisation, the providers, the queues. */
export default function Operator() {
  const me = useMe()
  if (me.data && !me.data.operator)
    return <Empty title="This area is for operators of the service">Ask one of them for what you need.</Empty>
  return (
    <Switch>
      <Route path="/operator/organisations/:id">{({ id }) => <OrganisationPage key={id} id={id} />}</Route>
      <Route>
        <Page title="Operator area" description="The whole service: its organisations, providers, queues and people.">
          <Views />
        </Page>
      </Route>
    </Switch>
  )
}

function Views() {
  const [location, navigate] = useLocation()
  const current = tabs.findLast(({ path }) => location.startsWith(path))!.path
  return (
    <Tabs value={current} onChange={path => path && navigate(path)} keepMounted={false}>
      <Tabs.List mb="md">
        {tabs.map(({ path, label }) => (
          <Tabs.Tab key={path} value={path}>
            {label}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      <Tabs.Panel value="/operator">
        <Organisations />
      </Tabs.Panel>
      <Tabs.Panel value="/operator/providers">
        <Providers />
      </Tabs.Panel>
      <Tabs.Panel value="/operator/system">
        <System />
      </Tabs.Panel>
      <Tabs.Panel value="/operator/people">
        <People />
      </Tabs.Panel>
    </Tabs>
  )
}
