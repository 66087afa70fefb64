import { Button, Group, Select, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import type { DashboardKey } from '../../../wire/keys.ts'
import { isOffered, useModels } from '../../catalog.ts'
import { Snippets } from '../../components/copy.tsx'
import { OpenModal } from '../../components/dialogs.tsx'
import { Show } from '../../components/states.tsx'
import { agentModels, agentSnippets } from './agent-snippets.ts'

const maxShown = 200
const placeholder = 'svc_sk_live_…'
/** A key without limits, for set-up before one is chosen. */
const anyKey = { environment: 'live', model_allowlist: null } as const

type Limits = Pick<DashboardKey, 'environment' | 'model_allowlist'>

/** The set-up of agents and other clients for one of the models that a key can use. */
export function ConnectAgent({ limits, secret }: { limits: Limits; secret: string }) {
  const query = useModels()
  const [chosen, setChosen] = useState<string | null>(null)
  return (
    <Show query={query}>
      {all => {
        const models = agentModels(all.filter(model => isOffered(limits, model)))
        const model = models.find(({ id }) => id === chosen) ?? models[0]
        if (!model) return <Text size="sm">No model that takes tools can be used: configure a provider first.</Text>
        const snippets = agentSnippets({ origin: location.origin, key: secret, model, models })
        return (
          <Stack gap="xs">
            <Select
              label="Model"
              searchable
              allowDeselect={false}
              limit={maxShown}
              data={models.map(({ id, name }) => ({ value: id, label: name }))}
              value={model.id}
              onChange={setChosen}
            />
            <Snippets snippets={snippets.map(({ client, place, code }) => ({ language: client, note: place, code }))} />
          </Stack>
        )
      }}
    </Show>
  )
}

/** The same for a key that is entered later. */
export function ConnectDialog({ onClose }: { onClose: () => void }) {
  return (
    <OpenModal onClose={onClose} size="lg" title="Connect an agent">
      <Stack>
        <Text size="sm" c="dimmed">
          Replace {placeholder} with the secret of a key. The secret is shown once, when the key is created or rolled.
        </Text>
        <ConnectAgent limits={anyKey} secret={placeholder} />
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Close
          </Button>
        </Group>
      </Stack>
    </OpenModal>
  )
}
