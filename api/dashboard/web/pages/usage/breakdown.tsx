import { Group, Paper, Select, Stack, Text, Title } from '@mantine/core'
import { queryText } from '../../api.ts'
import { ExportButtons } from '../../components/export-buttons.tsx'
import { useFilter } from '../../components/filters.tsx'
import { Show } from '../../components/states.tsx'
import { usePlace } from '../../session.tsx'
import { GroupTable } from './group-table.tsx'
import { type UsageChoice, useGroups } from './queries.ts'
import { dimensions, granularities, isNamed, NoTag, useChoice } from './series-chart.tsx'

const seconds = [{ value: 'none', label: 'nothing' }, ...dimensions]

const rollups = [{ value: 'total', label: 'total' }, ...granularities]

/** Usage by up to two properties and by period, as a table and as files. */
export function Breakdown({ choice }: { choice: UsageChoice }) {
  const { base } = usePlace()
  const [by, setBy] = useChoice('rows', dimensions, 'key')
  const [then, setThen] = useChoice('then', seconds, 'model')
  const thenBy = then === 'none' || then === by ? '' : then
  const [tag] = useFilter('tag')
  const [rollup, setRollup] = useChoice('rollup', rollups, 'total')
  const granularity = rollup === 'total' ? '' : rollup
  const query = { ...choice, by, then_by: thenBy, granularity, tag }
  const isReady = isNamed([by, thenBy], tag)
  const groups = useGroups(query, isReady)
  return (
    <Paper component="section" aria-labelledby="groups" withBorder p="md" style={{ minWidth: 0 }}>
      <Stack gap="sm">
        <Group justify="space-between" gap="sm">
          <Title order={2} id="groups">
            Breakdown
          </Title>
          <Group gap="xs">
            <GroupSelect label="by" data={dimensions} value={by} onChange={setBy} />
            <GroupSelect label="then by" data={seconds} value={thenBy || 'none'} onChange={setThen} />
            <GroupSelect label="per" data={rollups} value={rollup} onChange={setRollup} />
            <ExportButtons hrefOf={format => `${base}/usage/groups.${format}${queryText(query)}`} />
          </Group>
        </Group>
        {isReady ? (
          <Show query={groups} rows={6}>
            {data => (
              <GroupTable
                data={data}
                choice={choice}
                names={thenBy === '' ? [by] : [by, thenBy]}
                tag={tag}
                granularity={granularity}
              />
            )}
          </Show>
        ) : (
          <NoTag />
        )}
      </Stack>
    </Paper>
  )
}

function GroupSelect({
  label,
  data,
  value,
  onChange,
}: {
  label: string
  data: { value: string; label: string }[]
  value: string
  onChange: (value: string) => void
}) {
  return (
    <Group gap={6} wrap="nowrap">
      <Text size="xs" c="dimmed">
        {label}
      </Text>
      <Select
        size="xs"
        w={120}
        aria-label={`Group ${label}`}
        data={data}
        value={value}
        allowDeselect={false}
        onChange={chosen => onChange(chosen!)}
      />
    </Group>
  )
}
