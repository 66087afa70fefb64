import { Alert, Button, Group, Stack, Text, VisuallyHidden } from '@mantine/core'
import { IconKey } from '@tabler/icons-react'
import { useState } from 'react'
import type { OrganisationDetail, ProvisioningKey } from '../../../wire/operator.ts'
import { Confirm } from '../../components/confirm.tsx'
import { CodeBox } from '../../components/copy.tsx'
import { OpenModal } from '../../components/dialogs.tsx'
import { Section } from '../../components/facts.tsx'
import { Failure } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { useIssueProvisioning, useRevokeProvisioning } from './queries.ts'

/** The provisioning keys of an organisation, which manage its API keys through the API. */
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
            They manage this organisation’s API keys through <code>/api/v1/keys</code> and cannot call models.
          </Text>
          <Button
            variant="default"
            leftSection={<IconKey size={16} aria-hidden />}
            loading={issue.isPending}
            onClick={() => issue.mutate()}
          >
            Create key
          </Button>
        </Group>
        {issue.error && <Failure error={issue.error} />}
        <DataTable
          label="Provisioning keys"
          rows={keys}
          columns={columns(setRevoking)}
          rowKey={key => key.id}
          minWidth={480}
        />
      </Stack>
      {issue.data && <Secret secret={issue.data.secret} onClose={issue.reset} />}
      {revoking && <Revocation organisationId={id} apiKey={revoking} onClose={() => setRevoking(null)} />}
    </Section>
  )
}

const columns = (onRevoke: (key: ProvisioningKey) => void): Column<ProvisioningKey>[] => [
  {
    header: 'Key',
    card: 'lead',
    kind: 'rowHeader',
    cell: ({ prefix, last4 }) => (
      <Text size="sm" ff="monospace">
        {prefix}…{last4}
      </Text>
    ),
  },
  {
    header: 'Status',
    card: 'aside',
    cell: ({ revoked_at }) => <Status value={revoked_at === null ? 'active' : 'revoked'} />,
  },
  { header: 'Created', card: 'labelled', cell: ({ created_at }) => <Time at={created_at} /> },
  {
    header: 'Actions',
    card: 'line',
    kind: 'actions',
    cell: key =>
      key.revoked_at === null && (
        <Button size="compact-sm" variant="subtle" color="red" onClick={() => onRevoke(key)}>
          Revoke<VisuallyHidden> the key ending in {key.last4}</VisuallyHidden>
        </Button>
      ),
  },
]

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
        <Alert color="yellow" variant="light" title="Copy this key now">
          It will not be shown again, because the gateway stores only a hash. Share it over a secure channel.
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
      {apiKey.prefix}…{apiKey.last4} stops working immediately. This cannot be undone. The API keys that it created are
      not affected.
    </Confirm>
  )
}
