import { Button, NumberInput, Select, Textarea, TextInput } from '@mantine/core'
import type { FormEvent, ReactNode } from 'react'
import type { CatalogModel } from '../../../wire/models.ts'

/** A list among the facts of a model's kind, as text. */
export function listOf(model: CatalogModel | undefined, name: string): string[] {
  const value = model?.kind[name]
  return Array.isArray(value) ? value.map(String) : []
}

/** A number among the facts of a model's kind. */
export function numberOf(model: CatalogModel | undefined, name: string): number | undefined {
  const value = model?.kind[name]
  return typeof value === 'number' ? value : undefined
}

/** One of what a model offers, or its own choice; nothing where it offers nothing. */
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
      placeholder="The model’s own"
      clearable
      searchable={options.length > 12}
      data={options}
      value={options.includes(value) ? value : null}
      onChange={chosen => onChange(chosen ?? '')}
    />
  )
}

/** What is still sensible of a choice that was made for another model. */
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
      description="The same seed gives the same result, where the model can"
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

/** A form of a tab, with the button that sends it. */
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
