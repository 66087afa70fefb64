import { Alert, Button, Checkbox, Group, Stack, Switch, TagsInput, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { NotificationChannel, NotificationsAnswer } from '../../../wire/operator-home.ts'
import { changedFields } from '../../changed-fields.ts'
import { Confirm } from '../../components/confirm.tsx'
import { CodeBox } from '../../components/copy.tsx'
import { Section } from '../../components/facts.tsx'
import { Form } from '../../components/form.tsx'
import { Empty, Failure, Show } from '../../components/states.tsx'
import { moment } from '../../format.ts'
import {
  useNotifications,
  useNotificationsChange,
  useNotificationsSecret,
  useNotificationsTest,
} from './home-queries.ts'
import { Messages } from './messages.tsx'

/** How operators are told of incidents, and which messages they got. */
export default function Notifications() {
  const notifications = useNotifications()
  return (
    <Show query={notifications}>
      {answer => (
        <Stack>
          <Text size="sm" c="dimmed" maw={720}>
            Operators get one message when an incident has lasted for 20 seconds, and one when it has been over for two
            minutes. What fails together is one incident.
          </Text>
          <Settings answer={answer} />
          <Tests answer={answer} />
          {answer.settings.webhook_url !== null && <Secret />}
          <Section title="Messages">
            <Messages messages={answer.messages} empty={<Empty title="No messages yet" />} />
          </Section>
        </Stack>
      )}
    </Show>
  )
}

const topics = [
  { value: 'providers', label: 'Providers: models that fail, API keys that are refused' },
  { value: 'service', label: 'The service: lost processes, no worker, usage that is not booked' },
  { value: 'reservations', label: 'Requests that cost more than was reserved' },
  { value: 'webhooks', label: 'Webhook endpoints of organisations that fail' },
]

function Settings({ answer: { settings, recipients, has_mail_server } }: { answer: NotificationsAnswer }) {
  /** The values that the form began with, so that concurrent changes of others are not reverted. */
  const [begun, setBegun] = useState(settings)
  const [draft, setDraft] = useState(settings)
  const [slack, setSlack] = useState<string | null>(null)
  const set = (change: Partial<typeof draft>) => setDraft(before => ({ ...before, ...change }))
  const { slack_end: slackEnd } = draft
  const change = useNotificationsChange(
    { ...changedFields(draft, begun), ...(slack !== null && { slack_url: slack || null }) },
    ({ settings: saved }) => {
      setBegun(saved)
      setDraft(saved)
      setSlack(null)
    },
  )
  return (
    <Section title="Channels">
      <Form mutation={change} submit="Save">
        {!has_mail_server && (
          <Alert color="yellow" variant="light" title="No email is sent: SMTP_URL is not set">
            Set it, or use a webhook or Slack.
          </Alert>
        )}
        <Switch
          label="Email every operator"
          description={recipients.length === 0 ? 'No recipient yet' : `Emails go to ${recipients.join(', ')}`}
          checked={draft.email_operators}
          onChange={event => set({ email_operators: event.currentTarget.checked })}
        />
        <TagsInput
          label="Further email addresses"
          description="Press Enter after each, at most 20"
          maxTags={20}
          value={draft.emails}
          onChange={emails => set({ emails })}
        />
        <TextInput
          label="Webhook URL"
          description="Signed as other webhooks. Quiet hours do not apply to it."
          value={draft.webhook_url ?? ''}
          maxLength={2_048}
          onChange={event => set({ webhook_url: event.currentTarget.value || null })}
        />
        <TextInput
          label="Slack webhook URL"
          description={slackEnd === null ? undefined : `In use: …${slackEnd}`}
          placeholder={slackEnd === null ? undefined : `…${slackEnd}`}
          value={slack ?? ''}
          maxLength={2_048}
          autoComplete="off"
          onChange={event => setSlack(event.currentTarget.value)}
        />
        {slackEnd !== null && (
          <Checkbox
            label="Remove Slack"
            checked={slack === ''}
            onChange={event => setSlack(event.currentTarget.checked ? '' : null)}
          />
        )}
        <TopicFields draft={draft} set={set} />
        <QuietHours draft={draft} set={set} />
      </Form>
    </Section>
  )
}

type Fields = {
  draft: NotificationsAnswer['settings']
  set: (change: Partial<NotificationsAnswer['settings']>) => void
}

function TopicFields({ draft, set }: Fields) {
  return (
    <Checkbox.Group
      label="About"
      value={draft.topics}
      onChange={value => set({ topics: value as typeof draft.topics })}
    >
      <Stack gap="xs" mt="xs">
        {topics.map(topic => (
          <Checkbox key={topic.value} {...topic} />
        ))}
      </Stack>
    </Checkbox.Group>
  )
}

function QuietHours({ draft, set }: Fields) {
  return (
    <Group align="flex-end">
      <TextInput
        type="time"
        label="Quiet hours from"
        value={draft.quiet_from ?? ''}
        onChange={event => set({ quiet_from: event.currentTarget.value || null })}
      />
      <TextInput
        type="time"
        label="until"
        value={draft.quiet_to ?? ''}
        onChange={event => set({ quiet_to: event.currentTarget.value || null })}
      />
      <TextInput
        label="Time zone"
        value={draft.time_zone}
        onChange={event => set({ time_zone: event.currentTarget.value })}
      />
    </Group>
  )
}

function Tests({ answer: { settings, recipients } }: { answer: NotificationsAnswer }) {
  const test = useNotificationsTest()
  const channels: [NotificationChannel, string, boolean][] = [
    ['email', 'Test email', recipients.length > 0],
    ['webhook', 'Test webhook', settings.webhook_url !== null],
    ['slack', 'Test Slack', settings.slack_end !== null],
  ]
  return (
    <Section title="Send a test">
      <Stack gap="xs">
        <Group>
          {channels.map(([channel, label, leadsSomewhere]) => (
            <Button
              key={channel}
              variant="default"
              disabled={!leadsSomewhere}
              loading={test.isPending && test.variables === channel}
              onClick={() => test.mutate(channel)}
            >
              {label}
            </Button>
          ))}
        </Group>
        {test.data && (
          <Text size="sm" role="status">
            A worker sends it within seconds. What happened to it is shown below.
          </Text>
        )}
        {test.error && <Failure error={test.error} />}
      </Stack>
    </Section>
  )
}

function Secret() {
  const secret = useNotificationsSecret()
  const [isAsked, setAsked] = useState(false)
  return (
    <Section title="Signing secret">
      <Stack gap="xs" align="flex-start">
        {secret.data && <CodeBox code={secret.data.secret} label="Signing secret" />}
        {secret.data?.previous_valid_until && (
          <Text size="sm">The previous secret is also used until {moment(secret.data.previous_valid_until)}.</Text>
        )}
        <Group>
          {!secret.data && (
            <Button
              variant="default"
              loading={secret.isPending && secret.variables === 'GET'}
              onClick={() => secret.mutate('GET')}
            >
              Show
            </Button>
          )}
          <Button variant="default" onClick={() => setAsked(true)}>
            Roll
          </Button>
        </Group>
        {secret.error && !isAsked && <Failure error={secret.error} />}
      </Stack>
      {isAsked && (
        <Confirm
          title="Roll the signing secret"
          action="Roll secret"
          danger={false}
          pending={secret.isPending}
          error={secret.error}
          onConfirm={() => secret.mutate('POST', { onSuccess: () => setAsked(false) })}
          onClose={() => setAsked(false)}
        >
          Creates a new secret. For 24 hours, webhooks to operators are signed with both secrets, so that you can update
          the receiver. If you roll again within that time, the oldest secret expires immediately.
        </Confirm>
      )}
    </Section>
  )
}
