import { Alert, Button, Group, Stack, Table, Text, VisuallyHidden } from '@mantine/core'
import { IconKey } from '@tabler/icons-react'
import { useState } from 'react'
import type { OrganisationDetail, ProvisioningKey } from '../../../wire/operator.ts'
import { Confirm } from '../../components/confirm.tsx'
import { CodeBox } from '../../components/copy.tsx'
import { OpenModal } from '../../components/dialogs.tsx'
import { Section } from '../../components/facts.tsx'
import { Failure } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Time } from '../../components/time.tsx'
import { useIssueProvisioning, useRevokeProvisioning } from './queries.ts'

/** The keys that manage an organisation's standard keys through the API. */
export function ProvisioningKeys({
  organisation: { id, provisioning_keys: keys },
}: {
  organisation: OrganisationDetail
}) {
  const issue = useIssueProvisioning(id)
  const [revoking, setRevoking] = useState<ProvisioningKey | null>(null)
  return (
    <Section title="Provisioning keys">
      <Stack>
        <Group justify="space-between">
          <Text size="sm" c="dimmed">
            They manage this organisation’s keys through <code>/api/v1/keys</code> and call no model.
          </Text>
          <Button
            variant="default"
            leftSection={<IconKey size={16} aria-hidden />}
            loading={issue.isPending}
            onClick={() => issue.mutate()}
          >
            Issue a key
          </Button>
        </Group>
        {issue.error && <Failure error={issue.error} />}
        {keys.length > 0 && <KeyTable keys={keys} onRevoke={setRevoking} />}
      </Stack>
      {issue.data && <Secret secret={issue.data.secret} onClose={issue.reset} />}
      {revoking && <Revocation organisationId={id} apiKey={revoking} onClose={() => setRevoking(null)} />}
    </Section>
  )
}

function KeyTable({ keys, onRevoke }: { keys: ProvisioningKey[]; onRevoke: (key: ProvisioningKey) => void }) {
  return (
    <Table.ScrollContainer minWidth={480}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Key</Table.Th>
            <Table.Th>Status</Table.Th>
            <Table.Th>Issued</Table.Th>
            <Table.Th>
              <VisuallyHidden>Actions</VisuallyHidden>
            </Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {keys.map(key => (
            <Table.Tr key={key.id}>
              <Table.Td ff="monospace">
                {key.prefix}…{key.last4}
              </Table.Td>
              <Table.Td>
                <Status value={key.revoked_at === null ? 'active' : 'revoked'} />
              </Table.Td>
              <Table.Td>
                <Time at={key.created_at} />
              </Table.Td>
              <Table.Td ta="right">
                {key.revoked_at === null && (
                  <Button size="compact-sm" variant="subtle" color="red" onClick={() => onRevoke(key)}>
                    Revoke<VisuallyHidden> the key that ends in {key.last4}</VisuallyHidden>
                  </Button>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  )
}

function Secret({ secret, onClose }: { secret: string; onClose: () => void }) {
  return (
    <OpenModal
      onClose={onClose}
      title="Provisioning key issued"
      size="lg"
      centered
      closeOnClickOutside={false}
      closeOnEscape={false}
    >
      <Stack>
        <Alert color="yellow" variant="light" title="It is shown this once">
          Only its hash is kept. Hand it over by a safe way.
        </Alert>
        <CodeBox code={secret} label="provisioning key" />
        <Group justify="flex-end">
          <Button onClick={onClose}>I have copied it</Button>
        </Group>
      </Stack>
    </OpenModal>
  )
}

function Revocation({
  organisationId,
  apiKey,
  onClose,
}: {
  organisationId: string
  apiKey: ProvisioningKey
  onClose: () => void
}) {
  const revoke = useRevokeProvisioning(organisationId, onClose)
  return (
    <Confirm
      title="Revoke this provisioning key?"
      action="Revoke key"
      pending={revoke.isPending}
      error={revoke.error}
      onConfirm={() => revoke.mutate(apiKey.id)}
      onClose={onClose}
    >
      {apiKey.prefix}…{apiKey.last4} stops working at once and for good. The keys it made stay.
    </Confirm>
  )
}
