import { Button, Group, Pill, Stack, Text, TextInput, Title } from '@mantine/core'
import { useState } from 'react'
import type { OperatorModel } from '../../../wire/operator-catalog.ts'
import { Form } from '../../components/form.tsx'
import { NumberField } from '../../components/number-field.tsx'
import { Failure } from '../../components/states.tsx'
import { type Arm, useAddAlias, useRemoveAlias } from './catalog-queries.ts'

const maxArms = 10
const shareText = (arms: readonly Arm[]) => arms.map(({ model, percent }) => `${model} ${percent} %`).join(', ')

/** An alias with a button that removes it. */
export function AliasPill({ name, remove }: { name: string; remove: (name: string) => void }) {
  return (
    <Pill
      withRemoveButton
      onRemove={() => remove(name)}
      removeButtonProps={{ 'aria-label': `Remove ${name}`, 'aria-hidden': false, tabIndex: 0 }}
    >
      {name}
    </Pill>
  )
}

/** The aliases whose requests a model shares with others, and a form for a further one. */
export function SharedAliases({ model }: { model: OperatorModel }) {
  const remove = useRemoveAlias()
  return (
    <Stack gap="xs" component="section" aria-label="Shared aliases">
      <Title order={3} size="h5">
        Shared aliases
      </Title>
      {model.shared_aliases.map(({ name, arms }) => (
        <Group key={name} gap="xs">
          <AliasPill name={name} remove={remove.mutate} />
          <Text size="sm" c="dimmed">
            {shareText(arms)}
          </Text>
        </Group>
      ))}
      {remove.error && <Failure error={remove.error} />}
      <NewSharedAlias key={model.shared_aliases.length} model={model} />
    </Stack>
  )
}

function NewSharedAlias({ model }: { model: OperatorModel }) {
  const [alias, setAlias] = useState('')
  const [arms, setArms] = useState<Arm[]>([
    { model: model.id, percent: 90 },
    { model: '', percent: 10 },
  ])
  const add = useAddAlias({ alias, arms }, () => {})
  const change = (index: number, arm: Partial<Arm>) =>
    setArms(arms.map((one, at) => (at === index ? { ...one, ...arm } : one)))
  const sum = arms.reduce((total, { percent }) => total + percent, 0)
  const isWhole = Math.abs(sum - 100) < 0.001
  const isComplete = alias.trim() !== '' && arms.every(one => one.model.trim() !== '') && isWhole
  return (
    <Form mutation={add} submit="Add shared alias" variant="default" disabled={!isComplete}>
      <TextInput
        label="New shared alias"
        description="Each session stays with one of the models; without a session, each caller does."
        maxLength={100}
        value={alias}
        onChange={event => setAlias(event.currentTarget.value)}
      />
      {arms.map((arm, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows are only added at the end
        <Group key={index} gap="xs" grow>
          <TextInput
            aria-label={`Model ${index + 1}`}
            placeholder="Model"
            value={arm.model}
            disabled={index === 0}
            onChange={event => change(index, { model: event.currentTarget.value })}
          />
          <NumberField
            aria-label={`Percent of model ${index + 1}`}
            suffix=" %"
            min={0}
            max={100}
            decimalScale={2}
            value={arm.percent}
            onChange={percent => change(index, { percent })}
          />
        </Group>
      ))}
      <Group gap="xs">
        <Button
          variant="subtle"
          size="compact-sm"
          disabled={arms.length >= maxArms}
          onClick={() => setArms([...arms, { model: '', percent: 0 }])}
        >
          Add a model
        </Button>
        <Text size="sm" c={isWhole ? 'dimmed' : 'red'}>
          {`${sum} % of 100 %`}
        </Text>
      </Group>
    </Form>
  )
}
