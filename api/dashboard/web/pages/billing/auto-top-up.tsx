import { Alert, Button, Card, Group, NumberInput, Stack, Switch, Text, Title } from '@mantine/core'
import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useSearchParams } from 'wouter'
import type { AutoTopUp as AutoTopUpFacts, StartedCard } from '../../../wire/billing.ts'
import { call } from '../../api.ts'
import { Confirm } from '../../components/confirm.tsx'
import { Form } from '../../components/form.tsx'
import { Failure, Show } from '../../components/states.tsx'
import { moment, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { useChange } from '../../use-change.ts'
import { failureText } from './failures.ts'

const betweenLooksMs = 2_000
/** Polls for two minutes after the return from the page; the event of a saved card usually comes within seconds. */
const maxLooks = 60
const changed = { path: '/billing', queryKey: ['billing'] }

/** When the saved card is charged, and how much; nothing where payments are not set up. */
export function AutoTopUp() {
  const { id, base } = usePlace()
  const [address] = useSearchParams()
  const isReturning = address.get('card') === 'saved'
  const facts = useQuery({
    queryKey: [id, 'billing', 'auto-top-up'],
    queryFn: ({ signal }) => call<AutoTopUpFacts>(`${base}/billing/auto-top-up`, { signal }),
    refetchInterval: ({ state }) =>
      isReturning && state.data?.saving_card && state.dataUpdateCount < maxLooks ? betweenLooksMs : false,
  })
  return (
    <Show query={facts} rows={2}>
      {data =>
        data.limits && (
          <Card withBorder component="section" aria-labelledby="auto-top-up-title">
            <Stack gap="sm">
              <Title order={2} id="auto-top-up-title">
                Automatic top-up
              </Title>
              <State facts={data} isReturning={isReturning} />
              <Controls facts={data} limits={data.limits} />
            </Stack>
          </Card>
        )
      }
    </Show>
  )
}

/** What happened last, and what is wrong. */
function State({ facts, isReturning }: { facts: AutoTopUpFacts; isReturning: boolean }) {
  const { enabled, card, last, disabled_reason, retry_at, spent_month_usd, monthly_limit_usd, amount_usd } = facts
  const isFull = enabled && spent_month_usd + amount_usd > monthly_limit_usd
  return (
    <>
      {isReturning && facts.saving_card && (
        <Text size="sm" role="status">
          Waiting for the confirmation of your card. This usually takes a few seconds.
        </Text>
      )}
      {disabled_reason !== null && (
        <Alert color="red" title="Turned off after failed payments">
          {failureText(disabled_reason)} Save another card, then turn it on again.
        </Alert>
      )}
      {isFull && (
        <Alert color="yellow" title="Monthly limit reached">
          {usd(spent_month_usd)} of {usd(monthly_limit_usd)} are used this month (UTC). Nothing more is charged until
          the next month, unless you raise the limit.
        </Alert>
      )}
      <Text size="sm">
        {card === null
          ? 'No card is saved.'
          : `Card: ${card.brand} ending in ${card.last4}, expires ${card.expires.slice(5)}/${card.expires.slice(0, 4)}.`}{' '}
        Charged automatically this month (UTC): {usd(spent_month_usd)} of {usd(monthly_limit_usd)}.
      </Text>
      {last && (
        <Text size="sm" c="dimmed">
          Last attempt: {usd(last.amount_usd)} on {moment(last.created_at)},{' '}
          {last.status === 'open' ? 'under way' : last.status}
          {last.failure !== null && ` – ${failureText(last.failure)}`}
          {retry_at !== null && ` Next attempt not before ${moment(retry_at)}.`}
        </Text>
      )}
    </>
  )
}

type Limits = NonNullable<AutoTopUpFacts['limits']>

function Controls({ facts, limits }: { facts: AutoTopUpFacts; limits: Limits }) {
  const { may, isOperatorView } = usePlace()
  if (!may('pay')) {
    const state = facts.enabled
      ? `Below ${usd(facts.threshold_usd)}, ${usd(facts.amount_usd)} are charged.`
      : 'Automatic top-ups are off.'
    return <Text size="sm">{isOperatorView ? state : `${state} Owners and the billing role can change this.`}</Text>
  }
  return (
    <>
      <CardButtons card={facts.card} />
      {facts.card && <Settings key={settingsText(facts)} facts={facts} limits={limits} />}
    </>
  )
}

/** The settings alone: what is charged meanwhile leaves what is typed. */
function settingsText({ enabled, threshold_usd, amount_usd, monthly_limit_usd }: AutoTopUpFacts): string {
  return JSON.stringify([enabled, threshold_usd, amount_usd, monthly_limit_usd])
}

function CardButtons({ card }: { card: AutoTopUpFacts['card'] }) {
  const { base } = usePlace()
  const [isRemoving, setRemoving] = useState(false)
  const save = useMutation({
    mutationFn: () => call<StartedCard>(`${base}/billing/card`, { method: 'POST' }),
    onSuccess: ({ url }) => location.assign(url),
  })
  const remove = useChange<void, AutoTopUpFacts>(
    changed,
    path => call(`${path}/card`, { method: 'DELETE' }),
    () => setRemoving(false),
  )
  return (
    <>
      <Group gap="xs">
        <Button variant="default" loading={save.isPending} onClick={() => save.mutate()}>
          {card ? 'Replace card' : 'Save a card'}
        </Button>
        {card && (
          <Button variant="subtle" color="red" onClick={() => setRemoving(true)}>
            Remove card
          </Button>
        )}
      </Group>
      <Text size="xs" c="dimmed">
        You enter the card on a page hosted by Stripe. Its number never reaches this gateway.
      </Text>
      {save.error && <Failure error={save.error} />}
      {isRemoving && (
        <Confirm
          title="Remove the saved card"
          action="Remove"
          pending={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate()}
          onClose={() => setRemoving(false)}
        >
          Automatic top-ups are turned off, and the card cannot be charged any more.
        </Confirm>
      )}
    </>
  )
}

function Settings({ facts, limits }: { facts: AutoTopUpFacts; limits: Limits }) {
  const [enabled, setEnabled] = useState(facts.enabled)
  const [threshold, setThreshold] = useState<number | string>(facts.threshold_usd)
  const [amount, setAmount] = useState<number | string>(facts.amount_usd)
  const [limit, setLimit] = useState<number | string>(facts.monthly_limit_usd)
  const body = {
    enabled,
    threshold_usd: Number(threshold),
    amount_usd: Number(amount),
    monthly_limit_usd: Number(limit),
  }
  const store = useChange<void, AutoTopUpFacts>(changed, path => call(`${path}/auto-top-up`, { method: 'PUT', body }))
  const { minimum_usd: minimum, maximum_usd: maximum, maximum_month_usd: maximumMonth } = limits
  const field = {
    prefix: '$',
    decimalScale: 2,
    allowNegative: false,
    hideControls: true,
    required: true,
    w: 160,
  } as const
  return (
    <Form mutation={store} submit="Save settings">
      <Switch
        label="Top up automatically"
        checked={enabled}
        onChange={({ currentTarget }) => setEnabled(currentTarget.checked)}
      />
      <Group align="flex-start">
        <NumberInput {...field} label="When below" min={1} max={maximum} value={threshold} onChange={setThreshold} />
        <NumberInput {...field} label="Charge" min={minimum} max={maximum} value={amount} onChange={setAmount} />
        <NumberInput
          {...field}
          label="At most per month"
          min={Number(amount) || minimum}
          max={maximumMonth}
          value={limit}
          onChange={setLimit}
        />
      </Group>
    </Form>
  )
}
