import { Anchor, Group, Stack, Table, Text } from '@mantine/core'
import type { DashboardKey } from '../../../wire/keys.ts'
import { Status } from '../../components/status.tsx'
import { Time } from '../../components/time.tsx'
import { count, day, shortCount } from '../../format.ts'
import { Spend } from './spend.tsx'

/** The word for a key's state: unlike the API, the dashboard tells "switched off" from "revoked for good". */
export function stateOf({ disabled, status }: DashboardKey): string {
  return disabled ? 'disabled' : status
}

export function KeyTable({ keys, onOpen }: { keys: DashboardKey[]; onOpen: (key: DashboardKey) => void }) {
  return (
    <Table.ScrollContainer minWidth={880}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th>Key</Table.Th>
            <Table.Th>Status</Table.Th>
            <Table.Th style={{ whiteSpace: 'nowrap' }}>Spend this month</Table.Th>
            <Table.Th>Limits</Table.Th>
            <Table.Th>Last used</Table.Th>
            <Table.Th>Created</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {keys.map(key => (
            <Table.Tr key={key.id}>
              <Table.Td maw={240}>
                <Anchor
                  component="button"
                  type="button"
                  size="sm"
                  fw={500}
                  ta="left"
                  onClick={() => onOpen(key)}
                  style={{ overflowWrap: 'anywhere' }}
                >
                  {key.name}
                </Anchor>
              </Table.Td>
              <Table.Td>
                <Stack gap={4} align="flex-start">
                  <Text size="xs" ff="monospace" style={{ whiteSpace: 'nowrap' }}>
                    {key.prefix}…{key.last4}
                  </Text>
                  <Status value={key.environment} size="xs" />
                </Stack>
              </Table.Td>
              <Table.Td>
                <Status value={stateOf(key)} />
              </Table.Td>
              <Table.Td>
                <Spend {...key} />
              </Table.Td>
              <Table.Td>
                <Limits {...key} />
              </Table.Td>
              <Table.Td>
                <Time at={key.last_used_at} />
              </Table.Td>
              <Table.Td>
                <Text size="sm">{day(key.created_at)}</Text>
                <Text size="xs" c="dimmed">
                  {key.created_by === null ? 'by the API or an operator' : `by ${key.mine ? 'you' : key.created_by}`}
                </Text>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  )
}

/** What narrows a key, in few words; the drawer has everything. */
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
