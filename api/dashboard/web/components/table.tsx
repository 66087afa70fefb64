import { Button, Group, Table, UnstyledButton } from '@mantine/core'
import type { InfiniteData, UseInfiniteQueryResult } from '@tanstack/react-query'
import { type CSSProperties, Fragment, type ReactNode } from 'react'
import { Failure, Show } from './states.tsx'

export type Column<Row> = {
  /** Also the label of each cell on narrow screens. */
  header: string
  /** Required if several columns have the same header. */
  key?: string
  cell: (row: Row) => ReactNode
  /** `rowHeader` names its row, `number` is right-aligned, `actions` holds buttons and has no visible header. */
  kind?: 'rowHeader' | 'number' | 'actions'
  nowrap?: boolean
  width?: number
  /** Maximum width; longer words break. */
  maxWidth?: number
  /** Below the last row. */
  footer?: ReactNode
  /** The name of the order that its header chooses; without it, the header is text. */
  order?: string
  /**
   * Where the cell is in the card of a row on narrow screens: `lead` and `aside` are its first line, `line` and `labelled` (with the
   * header) share the second one. If any column says so, those that do not are left out there; otherwise cards list all cells.
   */
  card?: 'lead' | 'aside' | 'line' | 'labelled'
}

type TableProps<Row> = {
  /** The accessible name. */
  label: string
  columns: Column<Row>[]
  rowKey: (row: Row) => string
  /** Below this width the table scrolls; on narrow screens each row becomes a card. Without it, it always stays a table. */
  minWidth?: number
  maxWidth?: number
  /** Above this height the table scrolls under its header. */
  maxHeight?: number
  dense?: boolean
  /** Shows the header to screen readers only. */
  hiddenHeader?: boolean
  /** Opens a row that is clicked beside its links; keyboards use the links. */
  onRow?: (row: Row) => void
  /** The key of the row that is open. */
  openedRow?: string
  /** The order of the rows, with a minus if descending, and how a header changes it. */
  sort?: string
  onSort?: (sort: string) => void
  /** The group of a row; rows of a group follow each other, and the first has the group's heading above it. */
  groupOf?: (row: Row) => string
}

/** A table of loaded rows; `empty` replaces it if there are none. */
export function DataTable<Row>({ rows, empty = null, ...table }: TableProps<Row> & { rows: Row[]; empty?: ReactNode }) {
  if (rows.length === 0) return empty
  const {
    label,
    columns,
    rowKey,
    minWidth,
    maxWidth,
    maxHeight,
    dense,
    hiddenHeader,
    onRow,
    openedRow,
    groupOf,
    sort,
    onSort,
  } = table
  const canScroll = minWidth !== undefined || maxHeight !== undefined
  return (
    <div
      className="data-table"
      data-cards={minWidth === undefined ? undefined : columns.some(({ card }) => card) ? 'compact' : 'labelled'}
      style={{ maxWidth, maxHeight, ...cssLength('--min-width', minWidth) }}
      {...(canScroll && { role: 'group', 'aria-label': label, tabIndex: 0 })}
    >
      {/* The roles are explicit, since cards lose those of their elements in some browsers. */}
      <Table
        role="table"
        aria-label={label}
        stickyHeader={maxHeight !== undefined}
        {...(dense && { verticalSpacing: 4, horizontalSpacing: 6 })}
      >
        <Table.Thead role="rowgroup" className={hiddenHeader ? 'visually-hidden' : undefined}>
          <Table.Tr role="row">
            {columns.map(({ header, key = header, kind, width, maxWidth: longest, order }) => (
              <Table.Th
                key={key}
                role="columnheader"
                scope="col"
                data-kind={kind}
                w={width}
                style={wrapped(longest)}
                {...(order && { 'aria-sort': directionOf(order, sort) })}
              >
                {order && onSort ? (
                  <SortButton header={header} order={order} kind={kind} sort={sort} onSort={onSort} />
                ) : kind === 'actions' ? (
                  <span className="visually-hidden">{header}</span>
                ) : (
                  header
                )}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody role="rowgroup">
          {rows.map((row, i) => (
            <Fragment key={rowKey(row)}>
              {groupOf && (i === 0 || groupOf(rows[i - 1]!) !== groupOf(row)) && (
                <Table.Tr role="row" className="group">
                  <Table.Th role="rowheader" scope="rowgroup" colSpan={columns.length}>
                    {groupOf(row)}
                  </Table.Th>
                </Table.Tr>
              )}
              <Table.Tr
                role="row"
                {...(onRow && { className: 'opens', onClick: event => isOwnClick(event) && onRow(row) })}
                {...(openedRow === rowKey(row) && { 'data-opened': true })}
              >
                {columns.map(column => (
                  <Cell key={column.key ?? column.header} column={column} row={row} />
                ))}
              </Table.Tr>
            </Fragment>
          ))}
        </Table.Tbody>
        {columns.some(({ footer }) => footer !== undefined) && <Footer columns={columns} />}
      </Table>
    </div>
  )
}

function directionOf(order: string, sort: string | undefined): 'ascending' | 'descending' | 'none' {
  return sort === order ? 'ascending' : sort === `-${order}` ? 'descending' : 'none'
}

/** A header that sorts by its column: numbers from the largest, names from A. */
function SortButton({
  header,
  order,
  kind,
  sort,
  onSort,
}: { header: string; order: string; kind: string | undefined } & Required<Pick<TableProps<never>, 'onSort'>> &
  Pick<TableProps<never>, 'sort'>) {
  const direction = directionOf(order, sort)
  const isDescending = direction === 'none' ? kind === 'number' : direction === 'ascending'
  return (
    <UnstyledButton fz="inherit" fw="inherit" c="inherit" onClick={() => onSort(isDescending ? `-${order}` : order)}>
      {header}
      <span aria-hidden>{direction === 'ascending' ? ' ↑' : direction === 'descending' ? ' ↓' : ''}</span>
    </UnstyledButton>
  )
}

/** Whether a click was on the row itself: not on a link or button in it, and not the end of a selection of text. */
function isOwnClick({ target }: { target: EventTarget }): boolean {
  return target instanceof Element && !target.closest('a, button') && !getSelection()?.toString()
}

function Cell<Row>({ column: { header, kind, cell, nowrap, maxWidth, card }, row }: { column: Column<Row>; row: Row }) {
  const style: CSSProperties = {
    ...(nowrap && { whiteSpace: 'nowrap' }),
    ...wrapped(maxWidth),
  }
  const props = {
    'data-kind': kind,
    'data-label': header,
    'data-card': card,
    style,
    children: <div>{cell(row)}</div>,
  }
  return kind === 'rowHeader' ? (
    <Table.Th role="rowheader" scope="row" {...props} />
  ) : (
    <Table.Td role="cell" {...props} />
  )
}

function Footer<Row>({ columns }: { columns: Column<Row>[] }) {
  return (
    <Table.Tfoot role="rowgroup">
      <Table.Tr role="row">
        {columns.map(({ header, key = header, kind, footer, card }) =>
          kind === 'rowHeader' ? (
            <Table.Th key={key} role="rowheader" scope="row" data-kind={kind} data-card={card}>
              {footer}
            </Table.Th>
          ) : (
            <Table.Td key={key} role="cell" data-kind={kind} data-label={header} data-card={card}>
              <div>{footer}</div>
            </Table.Td>
          ),
        )}
      </Table.Tr>
    </Table.Tfoot>
  )
}

/** Breaks the words of a column that has a maximum width. */
function wrapped(maxWidth: number | undefined): CSSProperties {
  return maxWidth === undefined ? {} : { overflowWrap: 'anywhere', ...cssLength('--max-width', maxWidth) }
}

/** A length as a CSS variable, which the style sheet overrides on narrow screens. */
function cssLength(name: string, px: number | undefined): CSSProperties {
  return px === undefined ? {} : ({ [name]: `${px}px` } as CSSProperties)
}

/** The table of a paginated query: rows, loading state, error, and a button for the next page. */
export function PagedTable<Row>({
  query,
  empty,
  loadingRows,
  more = 'Show more',
  ...table
}: TableProps<Row> & {
  query: UseInfiniteQueryResult<InfiniteData<{ data: Row[] }>, Error>
  empty: ReactNode
  loadingRows?: number
  /** The label of the button. */
  more?: string
}) {
  return (
    <>
      <Show query={query} rows={loadingRows}>
        {({ pages }) => <DataTable {...table} rows={pages.flatMap(({ data }) => data)} empty={empty} />}
      </Show>
      {query.isFetchNextPageError && <Failure error={query.error} />}
      {query.hasNextPage && (
        <Group justify="center">
          <Button variant="default" loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
            {more}
          </Button>
        </Group>
      )}
    </>
  )
}
