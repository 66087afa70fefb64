import { Button, ScrollArea, Tabs } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense, useEffect, useMemo, useRef, useState } from 'react'
import { Link, Redirect, Route, Switch, useLocation } from 'wouter'
import type { DashboardKey, KeyAnswer } from '../../../wire/keys.ts'
import type { CatalogModel } from '../../../wire/models.ts'
import { ApiError, call } from '../../api.ts'
import { useModels } from '../../catalog.ts'
import { Page } from '../../components/page.tsx'
import { Empty, Loading, Show } from '../../components/states.tsx'
import { usePlace } from '../../session.tsx'
import { Client } from './client.ts'
import { isUsable, KeyPicker, preferredKey, rememberedKeyId, rememberKey, useUsableKeys } from './key-picker.tsx'
import { PersistedFieldsContext } from './persisted-field.ts'
import { PlaygroundContext } from './playground-context.ts'
import { takePrefill } from './prefill.ts'

const tabs = [
  { path: 'chat', label: 'Chat', tab: lazy(() => import('./chat/index.tsx')) },
  { path: 'compare', label: 'Compare', tab: lazy(() => import('./compare.tsx')) },
  { path: 'completions', label: 'Completions', tab: lazy(() => import('./completions.tsx')) },
  { path: 'embeddings', label: 'Embeddings', tab: lazy(() => import('./embeddings.tsx')) },
  { path: 'image', label: 'Image', tab: lazy(() => import('./image.tsx')) },
  { path: 'speech', label: 'Speech', tab: lazy(() => import('./speech.tsx')) },
  { path: 'transcription', label: 'Transcription', tab: lazy(() => import('./transcription.tsx')) },
  { path: 'music', label: 'Music', tab: lazy(() => import('./music.tsx')) },
  { path: 'sfx', label: 'Sound effects', tab: lazy(() => import('./sound-effects.tsx')) },
  { path: 'video', label: 'Video', tab: lazy(() => import('./video.tsx')) },
  { path: 'lipsync', label: 'Lip sync', tab: lazy(() => import('./lip-sync.tsx')) },
  { path: 'face_swap', label: 'Face swap', tab: lazy(() => import('./face-swap.tsx')) },
  { path: 'avatar', label: 'Talking avatar', tab: lazy(() => import('./avatar.tsx')) },
  { path: 'mesh', label: '3D mesh', tab: lazy(() => import('./mesh.tsx')) },
  { path: 'realtime', label: 'Realtime', tab: lazy(() => import('./realtime/index.tsx')) },
]
const description = 'Try any model through the public API with one of your API keys.'

export default function Playground() {
  const models = useModels()
  const keys = useUsableKeys('')
  const remembered = useRememberedKey()
  return (
    <Show query={keys}>
      {listed => (
        <Show query={remembered}>
          {last => <Show query={models}>{catalog => <WithKeys keys={listed} last={last} models={catalog} />}</Show>}
        </Show>
      )}
    </Show>
  )
}

/** The key that was used last, which may be on no page of the list; null if it is not usable any more. */
function useRememberedKey() {
  const { id, base } = usePlace()
  const last = rememberedKeyId(id)
  return useQuery({
    queryKey: [id, 'keys', 'remembered', last],
    queryFn: async ({ signal }) => {
      if (last === null) return null
      const found = await call<KeyAnswer>(`${base}/keys/${encodeURIComponent(last)}`, { signal }).catch(error => {
        if (error instanceof ApiError && error.status === 404) return null
        throw error
      })
      return found && isUsable(found.data) ? found.data : null
    },
    // What is chosen meanwhile is the state of the page.
    staleTime: Number.POSITIVE_INFINITY,
  })
}

type Choice = { keys: DashboardKey[]; last: DashboardKey | null; models: CatalogModel[] }

function WithKeys({ keys, last, models }: Choice) {
  const { id, home } = usePlace()
  const [chosen, setChosen] = useState<DashboardKey | null>(null)
  const apiKey = chosen ?? last ?? preferredKey(keys)
  if (!apiKey)
    return (
      <Page title="Playground" description={description}>
        <Empty title="You have no API key to use here yet">
          Members can use test keys and the live keys that they created. Test keys are free.
          <br />
          <Button component={Link} href={`${home}/keys`} mt="sm">
            Create an API key
          </Button>
        </Empty>
      </Page>
    )
  const choose = (key: DashboardKey) => {
    rememberKey(id, key)
    setChosen(key)
  }
  return (
    <Page title="Playground" description={description} actions={<KeyPicker value={apiKey} onChange={choose} />}>
      <Tab apiKey={apiKey} models={models} />
    </Page>
  )
}

function Tab({ apiKey, models }: { apiKey: DashboardKey; models: CatalogModel[] }) {
  const { base, home } = usePlace()
  const [location, navigate] = useLocation()
  const [values] = useState(takePrefill)
  const client = useMemo(() => new Client(base, apiKey.id), [base, apiKey.id])
  const state = useMemo(() => ({ apiKey, models, client }), [apiKey, models, client])
  const here = `${home}/playground`
  const current = location.slice(here.length + 1)
  const list = useRef<HTMLDivElement>(null)
  // biome-ignore lint/correctness/useExhaustiveDependencies: the selected tab changes with the address
  useEffect(() => {
    list.current?.querySelector('[data-active]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  }, [current])
  if (!tabs.some(({ path }) => path === current)) return <Redirect to={`${here}/${tabs[0]!.path}`} replace />
  return (
    <PlaygroundContext value={state}>
      <PersistedFieldsContext value={values}>
        <Tabs value={current} onChange={path => navigate(`${here}/${path}`)} activateTabWithKeyboard={false}>
          <ScrollArea type="auto" offsetScrollbars="x" scrollbarSize={6}>
            <Tabs.List ref={list} className="tab-row">
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
      </PersistedFieldsContext>
    </PlaygroundContext>
  )
}
