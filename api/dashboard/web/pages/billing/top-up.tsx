import { Card, Chip, Code, Group, List, NumberInput, Stack, Text, Title } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { useSearchParams } from 'wouter'
import type { Billing, StartedTopUp } from '../../../wire/billing.ts'
import { call } from '../../api.ts'
import { Form } from '../../components/form.tsx'
import { count, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'

const presetsUsd = [10, 25, 50, 100, 500]

export function TopUpForm({ payments }: { payments: Billing['payments'] }) {
  const { may } = usePlace()
  return (
    <Card withBorder component="section" aria-labelledby="top-up-title">
      <Stack gap="xs">
        <Title order={2} id="top-up-title">
          Add credits
        </Title>
        {!payments && <Unconfigured />}
        {payments && !may('pay') && <Text size="sm">Only owners and the billing role can buy credits.</Text>}
        {payments && may('pay') && <Amount {...payments} />}
      </Stack>
    </Card>
  )
}

/** Credits are then added by the operator, who reads here how. */
function Unconfigured() {
  const { me, id } = usePlace()
  if (!me.operator)
    return (
      <Text size="sm">
        Payments are not set up on this gateway. Ask whoever runs it to add credits, and name your organisation:{' '}
        <Code>{id}</Code>
      </Text>
    )
  return (
    <>
      <Text size="sm">
        Payments are not set up on this gateway. As an operator, add credits in the details of the organisation, or by a
        command:
      </Text>
      <Code block style={{ whiteSpace: 'pre-wrap' }}>
        npm run -s operator -- credit add --org {id} --usd 25
      </Code>
      <Text size="sm">
        To let owners and the billing role pay by card, set <Code>STRIPE_SECRET_KEY</Code> and{' '}
        <Code>STRIPE_WEBHOOK_SECRET</Code>.
      </Text>
    </>
  )
}

function Amount({ minimum_usd, maximum_usd, ach_hold_days }: NonNullable<Billing['payments']>) {
  const { base } = usePlace()
  // An email about a payment that failed names its amount.
  const [address] = useSearchParams()
  const [amount, setAmount] = useState<number | string>(Number(address.get('amount')) || 50)
  const pay = useMutation({
    mutationFn: () => call<StartedTopUp>(`${base}/top-ups`, { body: { amount_usd: Number(amount) } }),
    onSuccess: ({ url }) => location.assign(url),
  })
  const isGood = amount !== '' && Number(amount) >= minimum_usd && Number(amount) <= maximum_usd
  return (
    <Form mutation={pay} submit={isGood ? `Pay ${usd(Number(amount))}` : 'Pay'} disabled={!isGood}>
      <Chip.Group value={String(amount)} onChange={value => setAmount(Number(value))}>
        <Group gap="xs" role="radiogroup" aria-label="Suggested amounts">
          {presetsUsd.map(preset => (
            <Chip key={preset} value={String(preset)} size="sm" radius="sm">
              ${preset}
            </Chip>
          ))}
        </Group>
      </Chip.Group>
      <NumberInput
        label="Amount"
        description={`$${count(minimum_usd)} to $${count(maximum_usd)}`}
        prefix="$"
        min={minimum_usd}
        max={maximum_usd}
        clampBehavior="none"
        decimalScale={2}
        allowNegative={false}
        thousandSeparator=","
        hideControls
        required
        withAsterisk={false}
        value={amount}
        error={amount !== '' && !isGood && `Between $${count(minimum_usd)} and $${count(maximum_usd)}`}
        onChange={setAmount}
      />
      <List size="sm" c="dimmed" spacing={4}>
        <List.Item>Card: available immediately.</List.Item>
        <List.Item>
          US bank account (ACH):{' '}
          {ach_hold_days === 0 ? 'available immediately' : `available after ${days(ach_hold_days)}`}, and deducted again
          if the bank declines the debit.
        </List.Item>
        <List.Item>You pay on a page hosted by Stripe. Your card details never reach this gateway.</List.Item>
      </List>
    </Form>
  )
}

function days(number: number): string {
  return number === 1 ? 'a day' : `${number} days`
}
