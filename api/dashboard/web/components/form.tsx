import { Button, type ButtonProps, Group, Stack } from '@mantine/core'
import type { UseMutationResult } from '@tanstack/react-query'
import type { FormEvent, ReactNode } from 'react'
import { Failure } from './states.tsx'

type FormProps<T> = {
  /** `isRefused`: it would fail now, whatever is entered. */
  mutation: UseMutationResult<T, Error, void> & { isRefused?: boolean }
  /** The label of the button. */
  submit: string
  children: ReactNode
} & ButtonProps

/** Runs a mutation when a form is submitted: one submission at a time. */
function sending<T>(mutation: UseMutationResult<T, Error, void>) {
  return (event: FormEvent) => {
    event.preventDefault()
    if (!mutation.isPending) mutation.mutate()
  }
}

/** A form of a few fields in a row, its button beside them and its error below. */
export function RowForm<T>({ mutation, submit, children, disabled = false, ...button }: FormProps<T>) {
  return (
    <form onSubmit={sending(mutation)}>
      <Stack gap="xs">
        <Group align="flex-end">
          {children}
          <Button type="submit" loading={mutation.isPending} disabled={disabled || mutation.isRefused} {...button}>
            {submit}
          </Button>
        </Group>
        {mutation.error && <Failure error={mutation.error} />}
      </Stack>
    </form>
  )
}

/** A form that runs a mutation, its error above the button. */
export function Form<T>({ mutation, submit, children, disabled = false, ...button }: FormProps<T>) {
  return (
    <form onSubmit={sending(mutation)}>
      <Stack>
        {children}
        {mutation.error && <Failure error={mutation.error} />}
        <Button type="submit" loading={mutation.isPending} disabled={disabled || mutation.isRefused} {...button}>
          {submit}
        </Button>
      </Stack>
    </form>
  )
}
