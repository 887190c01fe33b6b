//! Stores a graph of dependencies as compressed rows.
//!
//! The first vertices are the transactions. Further vertices carry many edges with few: if each of
//! r readers precedes each of w writers, edges from the readers to a vertex and from there to the
//! writers say the same. Such a vertex is entered by edges of one kind and left by edges that are
//! [`FREE`], so that a path through it counts as one edge of that kind.

/// Sets of kinds of edges.
pub type Kinds = u8;
/// A write is followed by the next write of the key, by a read of it.
pub const WW: Kinds = 1;
pub const WR: Kinds = 2;
/// A read is followed by the write that it does not see.
pub const RW: Kinds = 4;
/// A transaction is followed by the next of its process.
pub const PROCESS: Kinds = 8;
/// A transaction returned before the other was called.
pub const REALTIME: Kinds = 16;
/// Continues the edge that entered a further vertex.
pub const FREE: Kinds = 32;

/// Something that lists the edges of a graph, in the same order each time.
pub trait Edges {
    /// Calls `edge` with the start, the end and the kind of each edge. Further vertices are
    /// numbered from `vertices` on; returns the number after the last one.
    fn each(&self, vertices: u32, edge: &mut dyn FnMut(u32, u32, Kinds)) -> u32;
}

/// A directed graph. Parallel edges are possible, loops are not.
pub struct Graph {
    /// By vertex: its first edge; then the number of edges.
    starts: Vec<u32>,
    targets: Vec<u32>,
    kinds: Vec<Kinds>,
    /// Number of transactions, which are the first vertices.
    transactions: u32,
}

/// The size of a graph that is to be built.
pub struct Size {
    starts: Vec<u32>,
    transactions: u32,
}

impl Size {
    /// Counts the edges of each vertex; `None` if there are more than 32 bits can number.
    pub fn new(transactions: usize, sources: &[&dyn Edges]) -> Option<Self> {
        let mut starts = vec![0u32; transactions + 1];
        let mut edges = 0u64;
        let mut vertices = transactions as u32;
        for source in sources {
            vertices = source.each(vertices, &mut |from, to, _| {
                debug_assert_ne!(from, to, "no transaction depends on itself");
                let from = from as usize + 1;
                if from >= starts.len() {
                    starts.resize(from + 1, 0);
                }
                starts[from] += 1;
                edges += 1;
            });
        }
        starts.resize(vertices as usize + 1, 0);
        if edges >= u64::from(u32::MAX) {
            return None;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        Some(Self {
            starts,
            transactions: transactions as u32,
        })
    }

    fn edges(&self) -> usize {
        self.starts[self.starts.len() - 1] as usize
    }

    /// Returns the bytes that building and searching the graph takes, besides those of the size.
    pub fn bytes(&self) -> usize {
        5 * self.edges() + 12 * self.starts.len()
    }

    /// Builds the graph from the same sources.
    pub fn build(self, sources: &[&dyn Edges]) -> Graph {
        let edges = self.edges();
        let mut starts = self.starts;
        let mut targets = vec![0; edges];
        let mut kinds = vec![0; edges];
        let mut vertices = self.transactions;
        // Each start moves to its end while the edges are stored, and back afterwards.
        for source in sources {
            vertices = source.each(vertices, &mut |from, to, kind| {
                let at = &mut starts[from as usize];
                targets[*at as usize] = to;
                kinds[*at as usize] = kind;
                *at += 1;
            });
        }
        starts.rotate_right(1);
        if let Some(first) = starts.first_mut() {
            *first = 0;
        }
        Graph {
            starts,
            targets,
            kinds,
            transactions: self.transactions,
        }
    }
}

impl Graph {
    /// Returns the number of vertices.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub fn is_transaction(&self, vertex: u32) -> bool {
        vertex < self.transactions
    }

    /// Returns the positions of a vertex's edges.
    #[inline]
    pub fn row(&self, vertex: u32) -> std::ops::Range<usize> {
        let at = vertex as usize;
        self.starts[at] as usize..self.starts[at + 1] as usize
    }

    /// Returns the end and the kind of the edge at a position.
    #[inline]
    pub fn edge(&self, at: usize) -> (u32, Kinds) {
        (self.targets[at], self.kinds[at])
    }

    /// Iterates over the ends and kinds of a vertex's edges of some kinds.
    #[inline]
    pub fn out(&self, vertex: u32, kinds: Kinds) -> impl Iterator<Item = (u32, Kinds)> + '_ {
        let edges = self.row(vertex).map(|at| self.edge(at));
        edges.filter(move |(_, kind)| kind & (kinds | FREE) != 0)
    }

    /// Returns the vertices that remain when those without predecessors are removed again and again
    /// (Kahn 1962). None remain if there is no cycle, which takes one pass over all edges.
    pub fn core(&self) -> Vec<u32> {
        let mut predecessors = vec![0u32; self.len()];
        for &to in &self.targets {
            predecessors[to as usize] += 1;
        }
        let vertices = 0..self.len() as u32;
        let mut removed: Vec<u32> = vertices
            .clone()
            .filter(|&vertex| predecessors[vertex as usize] == 0)
            .collect();
        removed.reserve_exact(self.len() - removed.len());
        let mut at = 0;
        while let Some(&vertex) = removed.get(at) {
            at += 1;
            for &to in &self.targets[self.row(vertex)] {
                let left = &mut predecessors[to as usize];
                *left -= 1;
                if *left == 0 {
                    removed.push(to);
                }
            }
        }
        vertices
            .filter(|&vertex| predecessors[vertex as usize] > 0)
            .collect()
    }
}
