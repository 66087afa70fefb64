import { Checkbox, Fieldset, MultiSelect, Select, SimpleGrid, TextInput } from '@mantine/core'
import { useState } from 'react'
import {
  type AlertRuleFields,
  type AlertRulesAnswer,
  type DashboardRule,
  type EmailChoice,
  kindOf,
  type RuleKind,
  ruleKindNames,
  type Window,
} from '../../../wire/alert-rules.ts'
import { changedFields } from '../../changed-fields.ts'
import { OpenModal } from '../../components/dialogs.tsx'
import { Form } from '../../components/form.tsx'
import { NumberField } from '../../components/number-field.tsx'
import { type RuleChanges, useSaveRule } from './rule-queries.ts'
import { emailLabels, windowLabels } from './rule-texts.ts'

type Choices = AlertRulesAnswer['choices']
/** `slack_url` is what was typed; the URL that a rule has is not shown. */
type Draft = AlertRuleFields & { slack_url: string; removesSlack: boolean }
type Fields = { draft: Draft; onChange: (changes: Partial<Draft>) => void; choices: Choices }

function startOf(rule: DashboardRule | null, members: Choices['members']): Draft {
  const slack = { slack_url: '', removesSlack: false }
  if (rule) {
    const { id: _, key_name, slack_end, value, evaluated_at, firing, slack_failure, ...fields } = rule
    // Those who have left cannot be chosen any more.
    const member_ids = fields.member_ids.filter(member => members.some(({ id }) => id === member))
    return { ...fields, member_ids, ...slack }
  }
  const kind = 'error_rate'
  return {
    name: '',
    kind,
    ...kindOf(kind).proposed,
    min_requests: 20,
    key: null,
    model: null,
    environment: 'live',
    email: 'admins',
    member_ids: [],
    webhook: true,
    enabled: true,
    ...slack,
  }
}

/** The fields to send: those that a kind does not have are empty. */
function fieldsOf({ slack_url: typed, removesSlack, ...draft }: Draft): RuleChanges {
  const { scope } = kindOf(draft.kind)
  const slack_url = typed.trim() === '' ? undefined : typed.trim()
  return {
    ...draft,
    name: draft.name.trim(),
    key: scope.includes('key') ? draft.key : null,
    model: scope.includes('model') ? draft.model : null,
    member_ids: draft.email === 'members' ? draft.member_ids : [],
    ...(slack_url !== undefined && { slack_url }),
    ...(removesSlack && slack_url === undefined && { slack_url: null }),
  }
}

/** What a rule measures: changed as a whole, because a threshold means nothing without its kind. */
const condition = ['kind', 'threshold', 'window', 'min_requests', 'key', 'model', 'environment'] as const

/** What a form changes of the rule that it began with. */
function changesOf(fields: RuleChanges, begun: RuleChanges): RuleChanges {
  const changed = changedFields(fields, begun)
  if (!condition.some(name => name in changed)) return changed
  return { ...changed, ...Object.fromEntries(condition.map(name => [name, fields[name]])) }
}

/** Creates a rule, or changes one. */
export function RuleForm({
  rule,
  choices,
  onClose,
}: {
  rule: DashboardRule | null
  choices: Choices
  onClose: () => void
}) {
  const [begun] = useState(() => startOf(rule, choices.members))
  const [draft, setDraft] = useState(begun)
  const change = (changes: Partial<Draft>) => setDraft({ ...draft, ...changes })
  const fields = fieldsOf(draft)
  const save = useSaveRule(rule?.id ?? null, rule ? changesOf(fields, fieldsOf(begun)) : fields, onClose)
  return (
    <OpenModal onClose={onClose} title={rule ? 'Edit rule' : 'Create rule'} centered size="lg">
      <Form mutation={save} submit={rule ? 'Save' : 'Create rule'}>
        <TextInput
          label="Name"
          required
          maxLength={100}
          data-autofocus
          value={draft.name}
          onChange={event => change({ name: event.currentTarget.value })}
        />
        <Condition draft={draft} onChange={change} choices={choices} />
        <Channels draft={draft} onChange={change} choices={choices} slackEnd={rule?.slack_end ?? null} />
      </Form>
    </OpenModal>
  )
}

function Condition({ draft, onChange, choices }: Fields) {
  const { thresholdLabel, windows, unit, minimum } = kindOf(draft.kind)
  return (
    <>
      <Select
        label="Alert on"
        allowDeselect={false}
        data={ruleKindNames.map(value => ({ value, label: kindOf(value).label }))}
        value={draft.kind}
        onChange={value => onChange({ kind: value as RuleKind, ...kindOf(value as RuleKind).proposed })}
      />
      <SimpleGrid cols={{ base: 1, sm: 3 }}>
        <NumberField
          label={thresholdLabel}
          min={0}
          decimalScale={unit === 'ms' || unit === 'days' ? 0 : 2}
          thousandSeparator=","
          value={draft.threshold}
          onChange={threshold => onChange({ threshold })}
        />
        {windows && (
          <Select
            label={unit === 'usd' ? 'In a' : 'Over'}
            allowDeselect={false}
            data={windows.map(value => ({ value, label: windowLabels[value] }))}
            value={draft.window}
            onChange={value => onChange({ window: value as Window })}
          />
        )}
        {minimum && (
          <NumberField
            label={`With at least (${minimum})`}
            min={1}
            max={1_000_000}
            decimalScale={0}
            value={draft.min_requests}
            onChange={min_requests => onChange({ min_requests })}
          />
        )}
      </SimpleGrid>
      <Scope draft={draft} onChange={onChange} choices={choices} />
    </>
  )
}

function Scope({ draft, onChange, choices }: Fields) {
  const { scope } = kindOf(draft.kind)
  if (scope.length === 0) return null
  return (
    <SimpleGrid cols={{ base: 1, sm: 3 }}>
      {scope.includes('key') && (
        <Select
          label="Key"
          placeholder="All keys"
          clearable
          searchable
          data={choices.keys.map(({ id, name }) => ({ value: id, label: name }))}
          value={draft.key}
          onChange={key => onChange({ key })}
        />
      )}
      {scope.includes('model') && (
        <Select
          label="Model"
          placeholder="All models"
          clearable
          searchable
          limit={200}
          data={choices.models}
          value={draft.model}
          onChange={model => onChange({ model })}
        />
      )}
      {scope.includes('environment') && (
        <Select
          label="Environment"
          allowDeselect={false}
          data={['live', 'test']}
          value={draft.environment}
          onChange={value => onChange({ environment: value as 'live' | 'test' })}
        />
      )}
    </SimpleGrid>
  )
}

function Channels({ draft, onChange, choices, slackEnd }: Fields & { slackEnd: string | null }) {
  return (
    <Fieldset legend="Send to">
      <Select
        label="Email"
        placeholder="No email"
        clearable
        data={Object.entries(emailLabels).map(([value, label]) => ({ value, label }))}
        value={draft.email}
        onChange={value => onChange({ email: value as EmailChoice | null })}
      />
      {draft.email === 'members' && (
        <MultiSelect
          mt="sm"
          label="Members"
          required
          searchable
          data={choices.members.map(({ id, name }) => ({ value: id, label: name }))}
          value={draft.member_ids}
          onChange={member_ids => onChange({ member_ids })}
        />
      )}
      <Checkbox
        mt="sm"
        label="Webhooks"
        description="The webhook URL of this page, and the endpoints that receive alert.raised and alert.resolved."
        checked={draft.webhook}
        onChange={event => onChange({ webhook: event.currentTarget.checked })}
      />
      <TextInput
        mt="sm"
        label="Slack webhook URL"
        description={
          slackEnd === null
            ? 'A Slack-compatible incoming webhook.'
            : `Ends with …${slackEnd}. Type another URL to replace it.`
        }
        placeholder="https://hooks.slack.com/services/…"
        type="url"
        maxLength={2_048}
        autoComplete="off"
        value={draft.slack_url}
        onChange={event => onChange({ slack_url: event.currentTarget.value })}
      />
      {slackEnd !== null && draft.slack_url === '' && (
        <Checkbox
          mt="xs"
          label="Remove the Slack webhook"
          checked={draft.removesSlack}
          onChange={event => onChange({ removesSlack: event.currentTarget.checked })}
        />
      )}
    </Fieldset>
  )
}
