import { Checkbox, NumberInput, SegmentedControl, Select, Text, Textarea } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { useState } from 'react'
import type { Credit, CreditMethod } from '../../../wire/operator.ts'
import { OpenModal } from '../../components/dialogs.tsx'
import { Section } from '../../components/facts.tsx'
import { Form } from '../../components/form.tsx'
import { Empty } from '../../components/states.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { moment, usd } from '../../format.ts'
import { useAddCredit, useAdjustBalance } from './queries.ts'

const columns: Column<Credit>[] = [
  { header: 'Amount', kind: 'number', cell: ({ amount_usd }) => usd(amount_usd) },
  {
    header: 'Type',
    maxWidth: 280,
    cell: ({ kind, method, note, available_at }) => (
      <>
        {kind === 'adjustment' ? 'adjustment' : (method ?? '–')}
        {note !== null && (
          <Text size="xs" c="dimmed">
            {note}
          </Text>
        )}
        {available_at !== null && (
          <Text size="xs" c="dimmed">
            {Date.parse(available_at) > Date.now() ? 'held until' : 'released'} {moment(available_at)}
          </Text>
        )}
      </>
    ),
  },
  { header: 'Added', nowrap: true, cell: ({ created_at }) => <Time at={created_at} /> },
]

export function Credits({ credits }: { credits: Credit[] }) {
  return (
    <Section title="Recent credits and adjustments">
      <DataTable
        label="Recent credits and adjustments"
        rows={credits}
        columns={columns}
        rowKey={({ id }) => id}
        empty={<Empty title="No credits yet">Add credits so that live keys can be used.</Empty>}
      />
    </Section>
  )
}

const methods: { value: CreditMethod; label: string }[] = [
  { value: 'grant', label: 'Grant' },
  { value: 'card', label: 'Paid by card' },
  { value: 'ach', label: 'Paid by ACH' },
]
const achHoldDays = 5
const maxHoldDays = 365

type Amount = number | string

function AmountInput({ value, onChange }: { value: Amount; onChange: (value: Amount) => void }) {
  return (
    <NumberInput
      label="Amount in USD"
      required
      min={0}
      max={1_000_000}
      decimalScale={9}
      prefix="$"
      thousandSeparator=","
      value={value}
      onChange={onChange}
      data-autofocus
    />
  )
}

/** Adds credits. A repeated submission of this dialog, such as after a lost connection, books nothing more. */
export function Crediting({ id, onClose }: { id: string; onClose: () => void }) {
  const [creditId] = useState(newBookingId)
  const [amount, setAmount] = useState<Amount>('')
  const [method, setMethod] = useState<CreditMethod>('grant')
  const [holdDays, setHoldDays] = useState<number | string>('')
  const body = {
    id: creditId,
    amount_usd: Number(amount),
    method,
    ...(holdDays !== '' && { hold_days: Number(holdDays) }),
  }
  const add = useAddCredit(id, body, () => {
    notifications.show({ title: 'Credits added', message: usd(Number(amount)) })
    onClose()
  })
  return (
    <OpenModal onClose={onClose} title="Add credits" centered>
      <Form mutation={add} submit="Add credits" disabled={!(Number(amount) > 0)}>
        <AmountInput value={amount} onChange={setAmount} />
        <Select
          label="Method"
          data={methods}
          allowDeselect={false}
          value={method}
          onChange={value => value && setMethod(value as CreditMethod)}
        />
        <NumberInput
          label="Hold period (days)"
          description={`Included in the balance immediately, and available after the hold period. ${method === 'ach' ? `Default: ${achHoldDays} days, because ACH payments can be returned.` : 'Default: none.'}`}
          min={0}
          max={maxHoldDays}
          allowDecimal={false}
          value={holdDays}
          onChange={setHoldDays}
        />
      </Form>
    </OpenModal>
  )
}

const maxReason = 500

/** `randomUUID` would need a secure context; gateways in a private network are often without TLS. */
function newBookingId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), byte => byte.toString(16).padStart(2, '0')).join('')
}

/** A credit or debit with its reason. A repeated submission of this dialog books nothing more. */
export function Adjusting({ id, onClose }: { id: string; onClose: () => void }) {
  const [adjustmentId] = useState(newBookingId)
  const [direction, setDirection] = useState<'credit' | 'debit'>('credit')
  const [amount, setAmount] = useState<Amount>('')
  const [reason, setReason] = useState('')
  const [allowNegative, setAllowNegative] = useState(false)
  const isDebit = direction === 'debit'
  const body = {
    id: adjustmentId,
    amount_usd: isDebit ? -Number(amount) : Number(amount),
    reason,
    ...(isDebit && { allow_negative: allowNegative }),
  }
  const adjust = useAdjustBalance(id, body, () => {
    notifications.show({ title: 'Balance adjusted', message: usd(body.amount_usd) })
    onClose()
  })
  return (
    <OpenModal onClose={onClose} title="Adjust balance" centered>
      <Form
        mutation={adjust}
        submit={isDebit ? 'Debit' : 'Credit'}
        color={isDebit ? 'red.9' : undefined}
        disabled={!(Number(amount) > 0) || reason.trim() === ''}
      >
        <SegmentedControl
          aria-label="Direction"
          fullWidth
          data={[
            { value: 'credit', label: 'Credit' },
            { value: 'debit', label: 'Debit' },
          ]}
          value={direction}
          onChange={value => setDirection(value as 'credit' | 'debit')}
        />
        <AmountInput value={amount} onChange={setAmount} />
        <Textarea
          label="Reason"
          description="Shown in the organisation’s ledger and audit log."
          required
          autosize
          minRows={2}
          maxLength={maxReason}
          value={reason}
          onChange={event => setReason(event.currentTarget.value)}
        />
        {isDebit && (
          <Checkbox
            label="Allow a negative available balance"
            description="Otherwise a debit that the available balance does not cover is refused."
            checked={allowNegative}
            onChange={event => setAllowNegative(event.currentTarget.checked)}
          />
        )}
      </Form>
    </OpenModal>
  )
}
