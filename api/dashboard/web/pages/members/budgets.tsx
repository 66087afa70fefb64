import {
  Button,
  Group,
  NumberInput,
  Progress,
  SegmentedControl,
  Stack,
  Text,
  TextInput,
  VisuallyHidden,
} from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { Budget, BudgetsAnswer } from '../../../wire/members.ts'
import { call } from '../../api.ts'
import { changedFields } from '../../changed-fields.ts'
import { OpenModal } from '../../components/dialogs.tsx'
import { Failure, Show } from '../../components/states.tsx'
import { count, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { useChange } from '../../use-change.ts'

/** Whom a budget is of: its scope in the API, and how it is named. */
export type BudgetOwner = { scope: string; name: string }

export function useBudgets() {
  const { id, base } = usePlace()
  return useQuery({
    queryKey: [id, 'budgets'],
    queryFn: async ({ signal }) => (await call<BudgetsAnswer>(`${base}/budgets`, { signal })).data,
  })
}

/** The budget of the whole organisation. */
export function OrganisationBudget({ onEdit }: { onEdit: (owner: BudgetOwner) => void }) {
  const { may } = usePlace()
  const budgets = useBudgets()
  const owner = { scope: 'organisation', name: 'the organisation' }
  return (
    <Show query={budgets} rows={1}>
      {list => (
        <Group gap="md">
          <Text size="sm">Monthly budget of the organisation:</Text>
          <BudgetSpend owner={owner} budget={list.find(({ scope }) => scope === owner.scope)} />
          {may('manage') && <EditButton owner={owner} onEdit={onEdit} />}
        </Group>
      )}
    </Show>
  )
}

export function EditButton({ owner, onEdit }: { owner: BudgetOwner; onEdit: (owner: BudgetOwner) => void }) {
  return (
    <Button size="compact-sm" variant="subtle" onClick={() => onEdit(owner)}>
      Budget<VisuallyHidden> of {owner.name}</VisuallyHidden>
    </Button>
  )
}

/** What is spent of a budget this month. */
export function BudgetSpend({ owner, budget }: { owner: BudgetOwner; budget: Budget | undefined }) {
  if (budget === undefined)
    return (
      <Text size="sm" c="dimmed">
        none
      </Text>
    )
  const { limit_usd: limit, spent_month_usd: spent, blocks } = budget
  const percent = limit === 0 ? 100 : Math.min(100, (spent / limit) * 100)
  return (
    <Stack gap={4} miw={120}>
      <Text size="sm" className="numeric">
        {usd(spent)} of {usd(limit)}
        {!blocks && ' (alerts only)'}
      </Text>
      <Progress
        size="sm"
        value={percent}
        color={percent >= 100 ? 'red' : percent >= 80 ? 'yellow' : undefined}
        aria-label={`Percentage of the monthly budget of ${owner.name} spent`}
      />
    </Stack>
  )
}

/** `limit_usd`: null while none is entered. */
type Settings = { limit_usd: number | null; blocks: boolean; alert_percents: number[] }

const maxPercent = 1_000
const proposed: Settings = { limit_usd: null, blocks: true, alert_percents: [50, 80, 100] }

const settingsOf = ({ limit_usd, blocks, alert_percents }: Budget): Settings => ({ limit_usd, blocks, alert_percents })

/** Sets or removes a budget. */
export function BudgetDialog({
  owner: { scope, name },
  budget,
  onClose,
}: {
  owner: BudgetOwner
  budget: Budget | undefined
  onClose: () => void
}) {
  const [begun] = useState(budget ? settingsOf(budget) : proposed)
  const [limit, setLimit] = useState<string | number>(begun.limit_usd ?? '')
  const [blocks, setBlocks] = useState(begun.blocks)
  const [percents, setPercents] = useState(begun.alert_percents.join(', '))
  const address = (base: string) => `${base}/${encodeURIComponent(scope)}`
  const parsed = percents
    .split(',')
    .map(text => text.trim())
    .filter(Boolean)
    .map(Number)
  const isWrong = parsed.some(percent => !Number.isInteger(percent) || percent < 1 || percent > maxPercent)
  const isValid = limit !== '' && !isWrong
  const fields = { limit_usd: Number(limit), blocks, alert_percents: parsed }
  /** Replaces the budget as it is now, with what was changed here: a colleague may have changed the rest. */
  const put = async (base: string) => {
    const { data } = await call<BudgetsAnswer>(base)
    const now = data.find(one => one.scope === scope)
    const body = now ? { ...settingsOf(now), ...changedFields<Settings>(fields, begun) } : fields
    return call<BudgetsAnswer>(address(base), { method: 'PUT', body })
  }
  const changed = { path: '/budgets', queryKey: ['budgets'] }
  const save = useChange<void, BudgetsAnswer>(changed, put, onClose)
  const remove = useChange<void, BudgetsAnswer>(changed, base => call(address(base), { method: 'DELETE' }), onClose)
  return (
    <OpenModal onClose={onClose} title={`Monthly budget of ${name}`} centered>
      <form
        onSubmit={event => {
          event.preventDefault()
          if (isValid) save.mutate()
        }}
      >
        <Stack>
          <Text size="sm" c="dimmed">
            {scope === 'organisation'
              ? 'All live keys of the organisation count, beside their own caps.'
              : 'The live keys that this member created count together, beside their own caps.'}{' '}
            A month begins at 00:00 UTC on its first day.
          </Text>
          <NumberInput
            label="Limit in USD"
            required
            min={0}
            decimalScale={2}
            value={limit}
            onChange={setLimit}
            data-autofocus
          />
          <SegmentedControl
            aria-label="When the limit is reached"
            data={[
              { value: 'block', label: 'Refuse requests' },
              { value: 'alert', label: 'Only alert' },
            ]}
            value={blocks ? 'block' : 'alert'}
            onChange={value => setBlocks(value === 'block')}
          />
          <TextInput
            label="Alert at percent of the limit"
            description="Owners and admins get an email, and your webhooks an event. Separate numbers by commas."
            value={percents}
            onChange={event => setPercents(event.currentTarget.value)}
            error={isWrong && `Enter whole numbers from 1 to ${count(maxPercent)}`}
          />
          {budget && (
            <Text size="sm" c="dimmed">
              Without this budget{budget.blocks ? ', requests that it refuses are answered again, and' : ''} nobody is
              told of what is spent. Caps of API keys stay.
            </Text>
          )}
          {(save.error ?? remove.error) && <Failure error={(save.error ?? remove.error)!} />}
          <Group justify="flex-end">
            {budget && (
              <Button variant="default" loading={remove.isPending} onClick={() => remove.mutate()}>
                Remove budget
              </Button>
            )}
            <Button type="submit" loading={save.isPending} disabled={!isValid || save.isRefused}>
              Save budget
            </Button>
          </Group>
        </Stack>
      </form>
    </OpenModal>
  )
}
