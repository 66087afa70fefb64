import { Group, Paper, Select, Stack, Text, Title } from '@mantine/core'
import { queryText } from '../../api.ts'
import { ExportButtons } from '../../components/export-buttons.tsx'
import { useFilter } from '../../components/filters.tsx'
import { Show } from '../../components/states.tsx'
import { usePlace } from '../../session.tsx'
import { GroupTable } from './group-table.tsx'
import { type UsageChoice, useGroups } from './queries.ts'
import { dimensions, isNamed, NoTag, periodRows, useChoice } from './series-chart.tsx'

const rows = [...periodRows, ...dimensions]
const seconds = [{ value: 'none', label: 'nothing' }, ...rows]

/** Usage by one property or period, or by two of them, as a table and as files. */
export function Breakdown({ choice }: { choice: UsageChoice }) {
  const { base } = usePlace()
  const [by, setBy] = useChoice('rows', rows, 'key')
  const [then, setThen] = useChoice('then', seconds, 'none')
  const [sort, setSort] = useFilter('sort')
  const [tag] = useFilter('tag')
  // A second period says nothing that the first one does not.
  const isPeriod = (name: string) => periodRows.some(({ value }) => value === name)
  const thenBy = then === by || (isPeriod(by) && isPeriod(then)) ? 'none' : then
  const names = [by, thenBy].filter(name => name !== 'none' && !isPeriod(name))
  const granularity = [by, thenBy].find(isPeriod) ?? ''
  const query = { ...choice, by: names[0] ?? 'none', then_by: names[1] ?? '', granularity, tag }
  const isReady = isNamed(names, tag)
  const groups = useGroups(query, isReady)
  return (
    <Paper component="section" aria-labelledby="groups" withBorder p="md" style={{ minWidth: 0 }}>
      <Stack gap="sm">
        <Group justify="space-between" gap="sm">
          <Title order={2} id="groups">
            Breakdown
          </Title>
          <Group gap="xs">
            <GroupSelect label="by" data={rows} value={by} onChange={setBy} />
            <GroupSelect label="then by" data={seconds} value={thenBy} onChange={setThen} />
            <ExportButtons hrefOf={format => `${base}/usage/groups.${format}${queryText(query)}`} />
          </Group>
        </Group>
        {isReady ? (
          <Show query={groups} rows={6}>
            {data => (
              <GroupTable
                data={data}
                choice={choice}
                names={names}
                tag={tag}
                granularity={granularity}
                sort={sort}
                onSort={setSort}
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
