import { Button, Code, Text } from '@mantine/core'
import { IconPlus } from '@tabler/icons-react'
import { useState } from 'react'
import type { DashboardPreset } from '../../../wire/presets.ts'
import { Copy } from '../../components/copy.tsx'
import { Page } from '../../components/page.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { moment } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { PresetDrawer } from './drawer.tsx'
import { usePresets } from './queries.ts'

const columns = (open: (preset: DashboardPreset) => void): Column<DashboardPreset>[] => [
  {
    header: 'Name in requests',
    card: 'lead',
    kind: 'rowHeader',
    cell: ({ name }) => (
      <>
        <Code>@preset/{name}</Code> <Copy value={`@preset/${name}`} label={`name of ${name}`} />
      </>
    ),
  },
  { header: 'Model', card: 'line', cell: ({ config }) => config.model ?? 'that of the request' },
  { header: 'Version', card: 'labelled', kind: 'number', cell: ({ version }) => version },
  { header: 'Changed', card: 'labelled', cell: ({ updated_at: at }) => moment(at) },
  {
    header: 'Actions',
    card: 'aside',
    cell: preset => (
      <Button size="compact-sm" variant="subtle" onClick={() => open(preset)}>
        Open
      </Button>
    ),
  },
]

/** The saved models with settings of an organisation. */
export default function Presets() {
  const { may, suspended } = usePlace()
  const presets = usePresets()
  const [opened, setOpened] = useState<DashboardPreset | 'new' | null>(null)
  return (
    <Page
      title="Presets"
      description="A preset saves a model with its system prompt and settings. Requests name it as their model; what they state themselves wins."
      actions={
        may('manage') && (
          <Button
            disabled={suspended}
            leftSection={<IconPlus size={16} aria-hidden />}
            onClick={() => setOpened('new')}
          >
            Create preset
          </Button>
        )
      }
    >
      <Show query={presets}>
        {data =>
          data.length === 0 ? (
            <Empty title="No presets yet">
              <Text size="sm">Change models and prompts here, without a change of your programs.</Text>
            </Empty>
          ) : (
            <DataTable
              label="Presets"
              rows={data}
              columns={columns(setOpened)}
              rowKey={({ name }) => name}
              minWidth={640}
            />
          )
        }
      </Show>
      {opened !== null && <PresetDrawer preset={opened === 'new' ? null : opened} onClose={() => setOpened(null)} />}
    </Page>
  )
}
