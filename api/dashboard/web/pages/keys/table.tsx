import { Anchor, Checkbox, Group, Stack, Text } from '@mantine/core'
import { Link } from 'wouter'
import type { DashboardKey } from '../../../wire/keys.ts'
import { Status } from '../../components/status.tsx'
import type { Column } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { count, day, shortCount } from '../../format.ts'
import { isSelectable } from './bulk.tsx'
import { KeyState } from './key-state.tsx'
import { Spend } from './spend.tsx'

export function keyColumns(home: string): Column<DashboardKey>[] {
  return [
    {
      header: 'Name',
      card: 'lead',
      kind: 'rowHeader',
      maxWidth: 240,
      cell: ({ name, id }) => (
        <Anchor component={Link} href={`${home}/keys/${id}`} size="sm" fw={500}>
          {name}
        </Anchor>
      ),
    },
    {
      header: 'Key',
      card: 'line',
      cell: ({ prefix, last4, environment }) => (
        <Stack gap={4} align="flex-start">
          <Text size="xs" ff="monospace" style={{ whiteSpace: 'nowrap' }}>
            {prefix}…{last4}
          </Text>
          <Status value={environment} size="xs" />
        </Stack>
      ),
    },
    { header: 'Status', card: 'aside', cell: key => <KeyState apiKey={key} /> },
    { header: 'Spend this month', card: 'line', cell: key => <Spend {...key} /> },
    { header: 'Limits', card: 'line', cell: key => <Limits {...key} /> },
    { header: 'Last used', card: 'labelled', cell: ({ last_used_at }) => <Time at={last_used_at} /> },
    {
      header: 'Created',
      cell: ({ created_at, created_by, mine }) => (
        <>
          <Text size="sm">{day(created_at)}</Text>
          <Text size="xs" c="dimmed">
            {created_by === null ? 'by the API or an operator' : `by ${mine ? 'you' : created_by}`}
          </Text>
        </>
      ),
    },
  ]
}

/** Selects keys for an action on several of them. */
export function selectionColumn(
  isSelected: (id: string) => boolean,
  onToggle: (id: string) => void,
): Column<DashboardKey> {
  return {
    header: 'Select',
    card: 'aside',
    kind: 'actions',
    width: 40,
    cell: key =>
      isSelectable(key) && (
        <Checkbox
          aria-label={`Select “${key.name}” …${key.last4}`}
          checked={isSelected(key.id)}
          onChange={() => onToggle(key.id)}
        />
      ),
  }
}

/** A summary of a key's limits; the drawer shows all of them. */
function Limits({ rpm_limit, tpm_limit, model_allowlist, scopes, expires_at }: DashboardKey) {
  const limits = [
    rpm_limit !== null && `${count(rpm_limit)} req/min`,
    tpm_limit !== null && `${shortCount(tpm_limit)} tok/min`,
    model_allowlist !== null &&
      (model_allowlist.length === 1 ? model_allowlist[0] : `${model_allowlist.length} models`),
    scopes !== '*' && scopes.replaceAll(',', ', '),
    expires_at !== null && `until ${day(expires_at)}`,
  ].filter(text => text !== false)
  if (limits.length === 0)
    return (
      <Text size="sm" c="dimmed">
        none
      </Text>
    )
  return (
    <Group gap={0} maw={220}>
      <Text size="xs">{limits.join(' · ')}</Text>
    </Group>
  )
}
