import { Anchor, Button, Group, Menu, Stack, Text, Title } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { IconPlus } from '@tabler/icons-react'
import { useState } from 'react'
import { Link } from 'wouter'
import type { AlertRulesAnswer, DashboardRule } from '../../../wire/alert-rules.ts'
import { Confirm } from '../../components/confirm.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { usePlace } from '../../session.tsx'
import { RuleForm } from './rule-form.tsx'
import { useDeleteRule, useEnableRule, useRules, useTestChannel } from './rule-queries.ts'
import { amountText, channelsText, conditionText } from './rule-texts.ts'

/** The rules of an organisation with their state. */
export function Rules() {
  const { may, home, suspended } = usePlace()
  const rules = useRules()
  /** The rule that is edited; 'new' = one is created. */
  const [edited, setEdited] = useState<DashboardRule | 'new' | null>(null)
  const [deleted, setDeleted] = useState<DashboardRule | null>(null)
  return (
    <Stack component="section" gap="sm" aria-labelledby="rules">
      <Group justify="space-between">
        <Title order={2} id="rules">
          Rules
        </Title>
        {may('manage') && (
          <Button
            disabled={suspended}
            leftSection={<IconPlus size={16} aria-hidden />}
            onClick={() => setEdited('new')}
          >
            Create rule
          </Button>
        )}
      </Group>
      <Show query={rules} rows={3}>
        {({ data, choices }) => (
          <>
            <DataTable
              label="Rules"
              rows={data}
              columns={columns(home, may('manage'), setEdited, setDeleted)}
              rowKey={({ id }) => id}
              minWidth={820}
              empty={
                <Empty title="No rules yet">
                  A rule raises an alert when spend, errors, latency, keys or webhook endpoints reach a limit you set.
                </Empty>
              }
            />
            {edited && <EditRule edited={edited} choices={choices} onClose={() => setEdited(null)} />}
            {deleted && <DeleteRule rule={deleted} onClose={() => setDeleted(null)} />}
          </>
        )}
      </Show>
    </Stack>
  )
}

type Edited = { edited: DashboardRule | 'new'; choices: AlertRulesAnswer['choices']; onClose: () => void }

function EditRule({ edited, choices, onClose }: Edited) {
  return <RuleForm rule={edited === 'new' ? null : edited} choices={choices} onClose={onClose} />
}

function columns(
  home: string,
  mayChange: boolean,
  onEdit: (rule: DashboardRule) => void,
  onDelete: (rule: DashboardRule) => void,
): Column<DashboardRule>[] {
  return [
    {
      header: 'Rule',
      card: 'lead',
      kind: 'rowHeader',
      maxWidth: 360,
      cell: rule => (
        <>
          <Text size="sm" fw={500}>
            {rule.name}
          </Text>
          <Text size="xs" c="dimmed">
            {conditionText(rule)}
          </Text>
        </>
      ),
    },
    { header: 'State', card: 'aside', maxWidth: 240, cell: rule => <RuleState rule={rule} /> },
    {
      header: 'Last value',
      card: 'labelled',
      kind: 'number',
      nowrap: true,
      cell: ({ kind, value }) => (value === null ? '–' : amountText(kind, value)),
    },
    {
      header: 'Channels',
      card: 'line',
      maxWidth: 220,
      cell: rule => (
        <>
          <Text size="sm">{channelsText(rule)}</Text>
          {rule.slack_failure && (
            <Anchor component={Link} href={`${home}/webhooks/${rule.slack_failure.id}`} size="xs" c="red">
              The last Slack message failed
            </Anchor>
          )}
        </>
      ),
    },
    ...(mayChange ? [actionsColumn(onEdit, onDelete)] : []),
  ]
}

function actionsColumn(
  onEdit: (rule: DashboardRule) => void,
  onDelete: (rule: DashboardRule) => void,
): Column<DashboardRule> {
  return {
    header: 'Actions',
    card: 'line',
    kind: 'actions',
    cell: rule => <Actions rule={rule} onEdit={onEdit} onDelete={onDelete} />,
  }
}

function RuleState({ rule: { enabled, firing, evaluated_at } }: { rule: DashboardRule }) {
  if (!enabled) return <Status value="disabled" />
  if (!firing) return <Status value={evaluated_at === null ? 'pending' : 'ok'} />
  return (
    <>
      <Status value="firing" />
      <Text size="xs" c="dimmed" component="div">
        <Time at={firing.since} />
        {firing.subjects.length > 0 && `: ${firing.subjects.join(', ')}`}
      </Text>
    </>
  )
}

type RuleActions = {
  rule: DashboardRule
  onEdit: (rule: DashboardRule) => void
  onDelete: (rule: DashboardRule) => void
}

function Actions({ rule, onEdit, onDelete }: RuleActions) {
  const enable = useEnableRule(rule.id)
  const channels = (['email', 'webhook', 'slack'] as const).filter(
    channel => ({ email: rule.email !== null, webhook: rule.webhook, slack: rule.slack_end !== null })[channel],
  )
  const send = useTestChannel(rule.id, ({ email_to, deliveries }) =>
    notifications.show({
      title: 'Test sent',
      message: [...email_to, ...deliveries.map(({ url }) => url)].join(', '),
    }),
  )
  const failure = send.error ?? enable.error
  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target>
          <Button variant="default" size="xs" aria-label={`Actions for ${rule.name}`}>
            Actions
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => onEdit(rule)}>Edit</Menu.Item>
          <Menu.Item onClick={() => enable.mutate(!rule.enabled)}>{rule.enabled ? 'Disable' : 'Enable'}</Menu.Item>
          {channels.map(channel => (
            <Menu.Item key={channel} onClick={() => send.mutate(channel)}>
              {`Send test: ${channel === 'slack' ? 'Slack' : channel}`}
            </Menu.Item>
          ))}
          <Menu.Item color="red" onClick={() => onDelete(rule)}>
            Delete
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      {failure && (
        <Text size="xs" c="red" role="alert" maw={240} ml="auto">
          {failure.message}
        </Text>
      )}
    </>
  )
}

function DeleteRule({ rule, onClose }: { rule: DashboardRule; onClose: () => void }) {
  const remove = useDeleteRule(rule.id, onClose)
  return (
    <Confirm
      title={`Delete ${rule.name}?`}
      action="Delete rule"
      pending={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      The rule is no longer evaluated. The alerts that it raised stay in the history.
    </Confirm>
  )
}
