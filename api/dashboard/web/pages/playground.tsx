import { Button, ScrollArea, Tabs } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense, useMemo, useState } from 'react'
import { Link, Redirect, Route, Switch, useLocation } from 'wouter'
import type { DashboardKey, KeysAnswer } from '../../wire/keys.ts'
import type { CatalogModel } from '../../wire/models.ts'
import { call } from '../api.ts'
import { useModels } from '../catalog.ts'
import { Page } from '../components/page.tsx'
import { Empty, Loading, Show } from '../components/states.tsx'
import { usePlace } from '../session.tsx'
import { BenchContext } from './playground/bench.ts'
import { Client } from './playground/client.ts'
import { KeptContext } from './playground/kept.ts'
import { isUsable, KeyPicker, preferredKey, rememberKey } from './playground/key-picker.tsx'

const tabs = [
  { path: 'chat', label: 'Chat', tab: lazy(() => import('./playground/chat.tsx')) },
  { path: 'image', label: 'Image', tab: lazy(() => import('./playground/image.tsx')) },
  { path: 'speech', label: 'Speech', tab: lazy(() => import('./playground/speech.tsx')) },
  { path: 'transcription', label: 'Transcription', tab: lazy(() => import('./playground/transcription.tsx')) },
  { path: 'video', label: 'Video', tab: lazy(() => import('./playground/video.tsx')) },
  { path: 'mesh', label: '3D mesh', tab: lazy(() => import('./playground/mesh.tsx')) },
  { path: 'realtime', label: 'Realtime', tab: lazy(() => import('./playground/realtime.tsx')) },
]
const description = 'Every kind of model, called through the public API with a key of yours, as any client would.'
const mostKeys = 100

export default function Playground() {
  const { id, base } = usePlace()
  const models = useModels()
  const keys = useQuery({
    queryKey: [id, 'keys', 'playground'],
    queryFn: async ({ signal }) => (await call<KeysAnswer>(`${base}/keys?limit=${mostKeys}`, { signal })).data,
  })
  return (
    <Show query={keys}>
      {all => <Show query={models}>{catalog => <WithKeys keys={all.filter(isUsable)} models={catalog} />}</Show>}
    </Show>
  )
}

function WithKeys({ keys, models }: { keys: DashboardKey[]; models: CatalogModel[] }) {
  const { id, home } = usePlace()
  const [chosenId, setChosenId] = useState<string | null>(null)
  const apiKey = keys.find(key => key.id === chosenId) ?? preferredKey(id, keys)
  if (!apiKey)
    return (
      <Page title="Playground" description={description}>
        <Empty title="There is no key that you can use yet">
          Members use test keys and the live keys that they made. A test key costs nothing.
          <br />
          <Button component={Link} href={`${home}/keys`} mt="sm">
            Create an API key
          </Button>
        </Empty>
      </Page>
    )
  const choose = (key: DashboardKey) => {
    rememberKey(id, key)
    setChosenId(key.id)
  }
  return (
    <Page
      title="Playground"
      description={description}
      actions={<KeyPicker keys={keys} value={apiKey} onChange={choose} />}
    >
      <Tab apiKey={apiKey} models={models} />
    </Page>
  )
}

function Tab({ apiKey, models }: { apiKey: DashboardKey; models: CatalogModel[] }) {
  const { base, home } = usePlace()
  const [location, navigate] = useLocation()
  const [kept] = useState(() => new Map<string, unknown>())
  const client = useMemo(() => new Client(base, apiKey.hash), [base, apiKey.hash])
  const bench = useMemo(() => ({ apiKey, models, client }), [apiKey, models, client])
  const here = `${home}/playground`
  const current = location.slice(here.length + 1)
  if (!tabs.some(({ path }) => path === current)) return <Redirect to={`${here}/${tabs[0]!.path}`} replace />
  return (
    <BenchContext value={bench}>
      <KeptContext value={kept}>
        <Tabs value={current} onChange={path => navigate(`${here}/${path}`)} activateTabWithKeyboard={false}>
          <ScrollArea type="never">
            <Tabs.List style={{ flexWrap: 'nowrap' }}>
              {tabs.map(({ path, label }) => (
                <Tabs.Tab key={path} value={path}>
                  {label}
                </Tabs.Tab>
              ))}
            </Tabs.List>
          </ScrollArea>
          <Tabs.Panel value={current} pt="md">
            <Suspense fallback={<Loading />}>
              <Switch>
                {tabs.map(({ path, tab: TabPage }) => (
                  <Route key={path} path={`/:organisation/playground/${path}`}>
                    <TabPage />
                  </Route>
                ))}
              </Switch>
            </Suspense>
          </Tabs.Panel>
        </Tabs>
      </KeptContext>
    </BenchContext>
  )
}
