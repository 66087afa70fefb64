import { Button, NumberInput, Select, Textarea, TextInput } from '@mantine/core'
import type { FormEvent, ReactNode } from 'react'
import type { CatalogModel } from '../../../wire/models.ts'

/** A list property of a model's kind, as text. */
export function listOf(model: CatalogModel | undefined, name: string): string[] {
  const value = model?.kind[name]
  return Array.isArray(value) ? value.map(String) : []
}

/** A number property of a model's kind. */
export function numberOf(model: CatalogModel | undefined, name: string): number | undefined {
  const value = model?.kind[name]
  return typeof value === 'number' ? value : undefined
}

/** Selects one of the options that a model offers, or its default; renders nothing if there are none. */
export function Offered({
  label,
  options,
  value,
  onChange,
}: {
  label: string
  options: string[]
  value: string
  onChange: (value: string) => void
}) {
  if (options.length === 0) return null
  return (
    <Select
      label={label}
      placeholder="Default"
      clearable
      searchable={options.length > 12}
      data={options}
      value={options.includes(value) ? value : null}
      onChange={chosen => onChange(chosen ?? '')}
    />
  )
}

/** The choice made for another model, if the current one offers it too. */
export function stillOffered(options: string[], value: string): string {
  return options.includes(value) ? value : ''
}

export function PromptField({
  label = 'Prompt',
  value,
  onChange,
  required = true,
  placeholder,
}: {
  label?: string
  value: string
  onChange: (value: string) => void
  required?: boolean
  placeholder?: string
}) {
  return (
    <Textarea
      label={label}
      autosize
      minRows={3}
      maxRows={12}
      required={required}
      placeholder={placeholder}
      value={value}
      onChange={event => onChange(event.currentTarget.value)}
    />
  )
}

export function SeedField({ value, onChange }: { value: number | string; onChange: (value: number | string) => void }) {
  return (
    <NumberInput
      label="Seed"
      description="The same seed gives the same result if the model supports it"
      // Beside fields without a description, the inputs are on one line.
      inputWrapperOrder={['label', 'input', 'description', 'error']}
      min={0}
      allowDecimal={false}
      value={value}
      onChange={onChange}
    />
  )
}

export function WordField({
  label,
  description,
  value,
  onChange,
}: {
  label: string
  description?: string
  value: string
  onChange: (value: string) => void
}) {
  return (
    <TextInput
      label={label}
      description={description}
      value={value}
      onChange={event => onChange(event.currentTarget.value.trim())}
    />
  )
}

/** A tab's form with its submit button. */
export function TabForm({
  submit,
  pending,
  disabled,
  onSubmit,
  children,
}: {
  submit: string
  pending: boolean
  disabled: boolean
  onSubmit: () => void
  children: ReactNode
}) {
  const send = (event: FormEvent) => {
    event.preventDefault()
    if (!pending && !disabled) onSubmit()
  }
  return (
    <form onSubmit={send} style={{ display: 'grid', gap: 'var(--mantine-spacing-sm)' }}>
      {children}
      <Button type="submit" loading={pending} disabled={disabled}>
        {submit}
      </Button>
    </form>
  )
}
